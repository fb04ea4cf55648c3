"""Local strategy: everything is in this process, and a step is one compiled function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from elastic_runtime.errors import ElasticError
from elastic_runtime.model.flat import Flat, Slots
from elastic_runtime.model.module import ModelModule
from elastic_runtime.model.network import Network, split
from elastic_runtime.model.optimizer import LearningRate, optimizer_config
from elastic_runtime.model.user_code import told
from elastic_runtime.ps import checkpoint
from elastic_runtime.ps.partfile import PartState
from elastic_runtime.worker.trainers.base import SnapshotLost, StepResult


@dataclass(frozen=True, slots=True)
class Copy:
    """All that makes up the training state of one version."""

    version: int
    model: Flat
    slots: dict[str, np.ndarray]


class LocalTrainer:
    """Trains in this process alone."""

    def __init__(self, module: ModelModule, *, seed: int = 0) -> None:
        self._network = Network(module)
        self._seed = seed
        self._version = 0
        self._copies: dict[int, Copy] = {}

    @property
    def version(self) -> int:
        """The number of updates."""
        return self._version

    @property
    def model(self) -> Any:
        """The Keras model."""
        return self._network.model

    def build(self, element_spec: Any) -> None:
        """Create the variables and trace the step once, for batches of any size."""
        network = self._network
        self._flat = network.build(element_spec, seed=self._seed)
        self._slots = Slots(network.optimizer, self._flat.weights)
        self._rate = LearningRate(network.optimizer)
        self._step = tf.function(self._traced_step, input_signature=[element_spec])
        self._predict = tf.function(network.predict, reduce_retracing=True)

    def train_batch(self, batch: Any) -> StepResult:
        """Forward, backward and update."""
        try:
            loss = self._step(batch)
        except Exception as error:
            raise told(self._network.stage, error) from error
        self._version += 1
        return StepResult(self._version, loss.numpy)

    def predict_batch(self, features: Any) -> Any:
        """The model's outputs, as tensors."""
        try:
            return self._predict(features)
        except Exception as error:
            raise told("model", error) from error

    def learning_rate(self) -> float:
        """The rate of the next update."""
        return self._rate.at(self._version)

    def snapshot(self) -> int:
        """Keep a copy of the present model and slots."""
        self._copies[self._version] = self._copy()
        return self._version

    def drop_snapshot(self, version: int) -> None:
        """Forget a copy, if there is one."""
        self._copies.pop(version, None)

    @contextmanager
    def evaluating(self, version: int) -> Iterator[None]:
        """Exchange the model for a snapshot; version 0 is the present model."""
        if version in (0, self._version):
            yield
            return
        other = self._snapshot_of(version).model
        variables = [v.value for v in self._network.model.variables]
        present = [tf.identity(variable) for variable in variables]  # to the bit, whatever their types
        self._flat.assign(*other)
        try:
            yield
        finally:
            for variable, value in zip(variables, present, strict=True):
                variable.assign(value)

    def save(self, directory: Path, version: int) -> int:
        """Write the whole model as the one part of a checkpoint."""
        copy = self._copy() if version == 0 else self._snapshot_of(version)
        state = PartState(
            layout=self._flat.layout,
            optimizer=optimizer_config(self._network.optimizer),
            version=copy.version,
            weights=copy.model.weights,
            state=copy.model.state,
            slots=copy.slots,
            step=copy.version,
        )
        checkpoint.write_part(directory, 0, 1, state)
        return copy.version

    def restore(self, directory: Path) -> None:
        """Take weights, state, slots and version from a checkpoint."""
        saved = checkpoint.read(directory)
        if saved.layout != self._flat.layout:
            what = f"the checkpoint {directory} is of another model than this one"
            raise ElasticError(what, remedy="start from a checkpoint of the same --model_def, or from none")
        self._flat.assign(np.asarray(saved.weights), np.asarray(saved.state))
        self._slots.assign({name: np.asarray(values) for name, values in saved.slots.items()})
        self._network.optimizer.iterations.assign(saved.step)
        self._version = saved.version
        self._copies.clear()

    def _traced_step(self, batch: Any) -> tf.Tensor:
        network = self._network
        loss, gradients = network.loss_and_gradients(*split(batch))
        network.optimizer.apply_gradients(zip(gradients, network.model.trainable_weights, strict=True))
        network.stage = "training step"
        return loss

    def _copy(self) -> Copy:
        return Copy(self._version, self._flat.read(), self._slots.read())

    def _snapshot_of(self, version: int) -> Copy:
        if version not in self._copies:
            raise SnapshotLost(f"there is no snapshot of version {version}: it was dropped, or never taken")
        return self._copies[version]
