"""A tiny model module, made without a file, for trainers and feeds."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture
def module_of():
    """`module_of(create_model, ...)` is a loaded model module with these parts."""
    import keras

    from elastic_runtime.model.module import ModelModule

    plain = ModelModule(
        path=Path("model.py"),
        feed=lambda dataset, mode, metadata: dataset,
        loss=keras.losses.mean_squared_error,
        create_model=lambda: None,
        create_optimizer=lambda: keras.optimizers.SGD(0.1),
        create_metrics=dict,
        create_callbacks=list,
        custom_data_reader=None,
        create_prediction_outputs_processor=None,
    )

    def make(create_model, **parts):
        return replace(plain, create_model=create_model, **parts)

    return make
