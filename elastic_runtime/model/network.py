"""The two computations of which every strategy is made: a forward and backward pass, and a prediction.

What is done with the gradients is the strategy's business. Both passes are meant to be traced into a
strategy's own `tf.function`; `stage` says whose code was being traced when an error came.
"""

from __future__ import annotations

import inspect
from typing import Any

import keras
import tensorflow as tf

from elastic_runtime.errors import InputError
from elastic_runtime.model.flat import FlatModel
from elastic_runtime.model.module import ModelModule
from elastic_runtime.model.user_code import user_code

_SEED_STEP = 1_000_003


class Network:
    """The parts of a model module that train: made here, built once the form of a batch is known."""

    def __init__(self, module: ModelModule) -> None:
        keras.utils.clear_session(free_memory=False)  # names of layers begin anew, alike in every process
        self.model = module.create_model()
        self.optimizer = module.create_optimizer()
        self.stage = ""
        self._loss = module.loss

    def build(self, element_spec: Any, *, seed: int = 0) -> FlatModel:
        """Create the variables of a model that has none yet, and lay them out flat.

        `seed` is another number in each worker, so that their dropout differs even where the user has fixed
        the seed.
        """
        features, _ = split(element_spec)
        self._has_training = "training" in inspect.signature(self.model.call).parameters
        with user_code("model"):
            tf.function(self.predict).get_concrete_function(features)
            self.optimizer.build(self.model.trainable_weights)
        self.model.optimizer = self.optimizer
        self._offset_seeds(seed)
        return FlatModel(self.model)

    def loss_and_gradients(
        self, features: Any, labels: Any, *, weight: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, list[Any]]:
        """The loss of a batch, regularisation included, and the gradients of the trainable weights.

        With a `weight` the gradients, not the loss, are multiplied by it.
        """
        if labels is None:
            self.stage = "feed"
            raise ValueError("feed gave features without labels to train on")
        with tf.GradientTape() as tape:
            self.stage = "model"
            outputs = self.model(features, training=True) if self._has_training else self.model(features)
            self.stage = "loss"
            loss = tf.reduce_mean(self._loss(labels, outputs))
            if self.model.losses:
                loss += tf.add_n([tf.cast(extra, loss.dtype) for extra in self.model.losses])
            self.stage = "optimizer"
            scaled = self.optimizer.scale_loss(loss if weight is None else loss * tf.cast(weight, loss.dtype))
        return loss, tape.gradient(scaled, self.model.trainable_weights)

    def predict(self, features: Any) -> Any:
        """The model's outputs."""
        self.stage = "model"
        return self.model(features, training=False) if self._has_training else self.model(features)

    def _offset_seeds(self, seed: int) -> None:
        for variable in self.model.non_trainable_variables:
            if variable.path.endswith("seed_generator_state"):
                variable.assign(variable.value + tf.constant([seed * _SEED_STEP, 0], variable.dtype))


def split(batch: Any) -> tuple[Any, Any]:
    """Features and labels of a batch; labels are None where `feed` gives features only."""
    if not isinstance(batch, tuple):
        return batch, None
    if len(batch) == 1:
        return batch[0], None
    if len(batch) == 2:
        return batch
    raise InputError(
        f"feed gave {len(batch)} parts for each record",
        where="the model's feed",
        remedy="it must give (features, labels), or features alone to predict",
    )
