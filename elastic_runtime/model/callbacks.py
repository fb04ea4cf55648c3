"""Runs the user's Keras callbacks; where Keras gives the number of a batch, they get the model's version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from elastic_runtime.model.user_code import user_code


class Callbacks:
    """The callbacks of one worker.

    `params` are what they find in `self.params`: batch_size, saved_model_path, checkpoint_path.
    """

    def __init__(
        self, callbacks: Sequence[keras.callbacks.Callback], *, model: keras.Model, params: Mapping[str, Any]
    ) -> None:
        self._callbacks, self._model = list(callbacks), model
        self.forget_stop()
        for callback in self._callbacks:
            callback.set_params(dict(params))
            callback.set_model(model)

    @property
    def stop_requested(self) -> bool:
        """A callback has set `model.stop_training`."""
        return bool(self._model.stop_training)

    def forget_stop(self) -> None:
        """The model went back: what was asked for on the way is judged anew."""
        self._model.stop_training = False

    def train_begin(self) -> None:
        """Before the first batch."""
        self._call(lambda callback: callback.on_train_begin())

    def batch_begin(self, version: int) -> None:
        """Before a batch, with the version of the model it is computed on."""
        self._call(lambda callback: callback.on_train_batch_begin(version))

    def batch_end(self, version: int, fetch_loss: Callable[[], float]) -> None:
        """After a batch, with the version of the model it led to."""
        if self._callbacks:
            logs = {"loss": float(fetch_loss())}
            self._call(lambda callback: callback.on_train_batch_end(version, logs))

    def train_end(self) -> None:
        """After the last batch."""
        self._call(lambda callback: callback.on_train_end())

    def _call(self, hook: Callable[[keras.callbacks.Callback], None]) -> None:
        with user_code("callbacks"):
            for callback in self._callbacks:
                hook(callback)
