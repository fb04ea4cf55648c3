"""Callbacks that go by the model's version, on which all workers agree, instead of a count of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


class LearningRateScheduler(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the optimizer's learning rate before each batch to `schedule(version)`."""

    def __init__(self, schedule: Callable[[int], float]) -> None:
        super().__init__()
        self.schedule = schedule

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """`batch` is the model's version."""
        rate = self.schedule(batch)
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            raise TypeError(f"schedule({batch}) gave {rate!r}: it must return a number")
        self.model.optimizer.learning_rate = float(rate)


class MaxStepsStopping(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends the training once the model's version has reached `max_steps`."""

    def __init__(self, max_steps: int) -> None:
        super().__init__()
        self.max_steps = max_steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """`batch` is the model's version."""
        if batch >= self.max_steps:
            self.model.stop_training = True


class SavedModelExporter(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes a SavedModel at the end of the training, to `path` or else to the job's own output folder."""

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.path = path

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Export the model as it is now."""
        path = self.path or self.params.get("saved_model_path")
        if path:
            self.model.export(path, verbose=False)
