"""Writes a finished model so that plain Keras and TensorFlow load it, without our code or the user's.

`<output>/model.keras` is for Keras, `<output>/saved_model/` for TensorFlow Serving and everything else. Both
appear only when both are whole. A subclassed model is saved as the functional model its `call` amounts to,
checked to compute the same; only if that cannot be does `model.keras` need the user's class, and the log says
so.
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elastic_runtime.errors import ElasticError

log = logging.getLogger(__name__)

_GROWING = ".export-"


def export(model: keras.Model, directory: Path | str, features_spec: Any = None) -> None:
    """Write both forms of a built model under `directory`, in place of earlier ones.

    `features_spec` is the form of a batch of features; a functional model knows its own.
    """
    directory = Path(directory)
    for left in directory.glob(f"{_GROWING}*"):  # by one that was killed
        shutil.rmtree(left, ignore_errors=True)
    growing = directory / f"{_GROWING}{uuid.uuid4().hex[:8]}"
    try:
        growing.mkdir(parents=True)
        portable = _functional(model, features_spec) or model
        _tell_needed_classes(portable)
        portable.save(growing / "model.keras")
        signature = None if getattr(portable, "inputs", None) else [features_spec]
        portable.export(growing / "saved_model", verbose=False, input_signature=signature)
        for name in ("model.keras", "saved_model"):
            _replace(growing / name, directory / name)
    except Exception as error:
        what = f"the model could not be exported: {type(error).__name__}: {error}"
        raise ElasticError(what, where=str(directory)) from error
    finally:
        shutil.rmtree(growing, ignore_errors=True)


def _functional(model: keras.Model, features_spec: Any) -> keras.Model | None:
    """The functional model that this one is, or that its `call` amounts to; None if there is no such."""
    if getattr(model, "inputs", None):
        return model
    if features_spec is None:
        raise ValueError("a subclassed model needs the form of its features")
    try:
        inputs = _inputs(features_spec)
        rebuilt = keras.Model(inputs, model.call(inputs), name=model.name)
        same = {id(w) for w in rebuilt.weights} == {id(w) for w in model.weights}
        return rebuilt if same and _agree(model, rebuilt, features_spec) else None
    except Exception as error:  # noqa: BLE001 - whatever the user's call does with symbolic tensors
        log.info("%s has no functional form: %s", type(model).__name__, str(error).partition("\n")[0])
        return None


def _agree(model: keras.Model, rebuilt: keras.Model, features_spec: Any) -> bool:
    """Whether both compute the same of made-up features."""
    features = keras.tree.map_structure(_made_up, features_spec)
    ours, theirs = (keras.tree.flatten(m(features)) for m in (model, rebuilt))
    return all(np.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))


def _inputs(spec: Any, name: str = "features") -> Any:
    if isinstance(spec, Mapping):
        return {key: _inputs(inner, key) for key, inner in spec.items()}
    return keras.Input(shape=spec.shape[1:], dtype=spec.dtype.name, name=name)


def _made_up(spec: tf.TensorSpec) -> tf.Tensor:
    shape = [2, *(n or 2 for n in spec.shape[1:])]
    if spec.dtype.is_floating:
        return tf.cast(tf.random.stateless_uniform(shape, seed=(1, 2)), spec.dtype)
    return tf.zeros(shape, spec.dtype)


def _tell_needed_classes(model: keras.Model) -> None:
    layers = [model, *model._flatten_layers()]
    strange = sorted({type(layer).__qualname__ for layer in layers if not _is_keras(type(layer))})
    if strange:
        log.warning("model.keras can only be loaded where these classes are: %s", ", ".join(strange))


def _is_keras(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "keras"


def _replace(new: Path, place: Path) -> None:
    """Move `new` to `place`; what was there goes away only then."""
    old = new.with_name(f"old-{new.name}")
    if place.exists():
        os.replace(place, old)
    os.replace(new, place)
