"""What every strategy offers the worker, and the model they all start from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from elastic_runtime.errors import ElasticError


class SnapshotLost(ElasticError):
    """No snapshot of that version is kept, nor ever will be."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What came of one batch; the loss is fetched only when asked for: a step need not wait for it."""

    version: int
    fetch_loss: Callable[[], float]

    @property
    def loss(self) -> float:
        """Of the batch, regularisation included."""
        return self.fetch_loss()


class Trainer(Protocol):
    """Trains one model on batches; `version` counts the updates it has seen. Used from one thread only."""

    @property
    def version(self) -> int:
        """Of the model as it is now."""
        ...

    @property
    def model(self) -> Any:
        """The Keras model, holding the present weights."""
        ...

    def build(self, element_spec: Any) -> None:
        """Create the variables for batches of this form; before anything else, once."""
        ...

    def train_batch(self, batch: Any) -> StepResult:
        """One update."""
        ...

    def predict_batch(self, features: Any) -> Any:
        """The model's outputs for a batch of features."""
        ...

    def learning_rate(self) -> float:
        """The rate of the next update."""
        ...

    def evaluating(self, version: int) -> AbstractContextManager[None]:
        """Inside, the model holds the snapshot of that version (0: the present model), or `SnapshotLost`."""
        ...


class Holder(Trainer, Protocol):
    """A trainer that holds the model itself: it keeps snapshots and writes and reads checkpoints."""

    def snapshot(self) -> int:
        """Keep a copy of the model as it is now; returns its version."""
        ...

    def drop_snapshot(self, version: int) -> None:
        """Forget a copy, if there is one."""
        ...

    def save(self, directory: Path, version: int) -> int:
        """Write a checkpoint's part from that snapshot (0: the present model); returns its version."""
        ...

    def restore(self, directory: Path) -> None:
        """Go on from a checkpoint, whichever strategy wrote it."""
        ...
