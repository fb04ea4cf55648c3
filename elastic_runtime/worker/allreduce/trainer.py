"""AllReduce strategy: every worker holds the model, and all apply the same mean of their gradients.

What is summed over the world in each step are the gradients, each times the number of records behind it,
and a few figures: records, who wants the world changed, who a snapshot, and rank 0's learning rate. So a
worker without records takes part with none, the mean is over the records really used, and all members learn
of a change after the same step.

A step that a loss cut short is owed: it is done first when the next world has come together, unless rank 0,
whose state all others take then, had finished it. `settled` is the version that every member is known to
have: what was trained up to there is in the model to stay, and later turns are kept to be done again. A
member is `left_out` if others took steps in a world that it was not in: it cannot tell whether its own last
one is in their model.
"""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from elastic_runtime.errors import ElasticError
from elastic_runtime.model.flat import Flat
from elastic_runtime.model.module import ModelModule
from elastic_runtime.model.network import split
from elastic_runtime.model.user_code import told
from elastic_runtime.worker.allreduce import collective
from elastic_runtime.worker.allreduce.collective import PeerLost, Place, peers
from elastic_runtime.worker.trainers.base import StepResult
from elastic_runtime.worker.trainers.local import Copy, LocalTrainer

log = logging.getLogger(__name__)

_SHARE, _CHANGE, _SNAPSHOT, _RATE = range(4)
_SEED = "seed_generator_state"


@dataclass(slots=True)
class _Turn:
    """A batch, the version it was trained on, and whether its turn was seen to the end here."""

    batch: Any
    base: int
    ended: bool = False


class AllreduceTrainer(LocalTrainer):
    """Trains together with the other members of its world."""

    def __init__(
        self,
        module: ModelModule,
        *,
        seed: int,
        batch_size: int,
        compression: Literal["none", "fp16"] = "none",
        lr_scaling: Literal["none", "linear", "sqrt"] = "none",
        snapshot_steps: tuple[int, ...] = (),
        timeout: float = 30.0,
    ) -> None:
        super().__init__(module, seed=seed)
        self._timeout = timeout
        self._batch_size, self._lr_scaling = batch_size, lr_scaling
        self._wire = tf.float16 if compression == "fp16" else None
        self._snapshot_steps = [steps for steps in snapshot_steps if steps]
        self._turns: list[_Turn] = []  # those that a loss may still undo
        self._owed: list[_Turn] = []
        self._counted: list[_Turn] = []  # cut short here, but rank 0 had finished them
        self._factor, self._rank = 1.0, 0
        self._world = self._began_in = self._moved_in = 0  # this one, that of the last turn, of the last done
        self.settled = -1
        self.left_out = False
        self.wants_change = self.wants_snapshot = False
        self.change_agreed = False
        self.snapshot_taken: int | None = None

    def build(self, element_spec: Any) -> None:
        """Create the variables and trace everything now: others wait while a member traces."""
        super().build(element_spec)
        model, optimizer = self._network.model, self._network.optimizer
        frozen = {id(v) for layer in model._flatten_layers() for v in layer._trainable_variables}
        self._state = [v for v in model.non_trainable_variables if _is_mean(v) and id(v) not in frozen]
        self._shared = [v.value for v in [*model.variables, *optimizer.variables] if _SEED not in v.path]
        self._gradients: list[tf.TensorSpec | None] = []
        wishes = tf.TensorSpec([4], tf.float32)
        self._together = tf.function(self._traced_turn, input_signature=[element_spec, wishes])
        self._without = tf.function(
            self._traced_idle, input_signature=[wishes, tf.TensorSpec([], tf.float32)]
        )
        self._take = tf.function(self._traced_take, input_signature=[tf.TensorSpec([3], tf.int64)])
        try:
            self._together.get_concrete_function()
        except Exception as error:
            raise told(self._network.stage, error) from error
        self._without.get_concrete_function()
        self._take.get_concrete_function()
        self._warm_up(element_spec)

    def _warm_up(self, element_spec: Any) -> None:
        """Do everything once, alone, with a batch that counts for nothing: first calls take TensorFlow long,
        and the others would wait for them. A model that does not take zeros is met by real records.
        """
        alone = Place(world=0, rank=0, size=1, store="", name="alone")
        nothing = tf.zeros([4], tf.float32)
        before = [(v, tf.identity(v.value)) for v in self._network.model.non_trainable_variables]
        try:
            batch = tf.nest.map_structure(self._zeros, element_spec)
            collective.come_together(alone, timeout=self._timeout)
            self._take(tf.zeros([3], tf.int64))
            self._without(nothing, tf.constant(0.0))
            self._together(batch, nothing)
        except Exception as problem:  # noqa: BLE001 - whatever a user's model may say to zeros
            log.debug("not warmed up: %s", problem)
        finally:
            collective.leave(agreed=False)
            for variable, value in before:
                variable.assign(value)

    def _zeros(self, spec: tf.TensorSpec) -> tf.Tensor:
        return tf.zeros([self._batch_size, *(size or 1 for size in spec.shape[1:])], spec.dtype)

    def train_batch(self, batch: Any) -> StepResult:
        """One update of the world with this batch; after a loss the same batch goes on where that came."""
        if any(turn.batch is batch for turn in self._counted):
            self._counted.clear()
            return StepResult(self._version, lambda: math.nan)
        while self._owed:
            owed = self._owed.pop(0)
            if owed.batch is not batch:
                self._do(owed.batch)
        loss = self._do(batch)
        return StepResult(self._version, loss.numpy)

    def idle(self) -> bool:
        """A turn without records of this worker's own; whether the model moved on."""
        before = self._version
        self._do(self._owed.pop(0).batch if self._owed else None)
        return self._version > before

    def learning_rate(self) -> float:
        """The rate of the next update."""
        return super().learning_rate() * self._factor

    def checksum(self) -> int:
        """Of all that must be alike in every member."""
        values = [v.value for v in [*self._network.model.trainable_weights, *self._state]]
        crc = 0
        for value in values:
            crc = zlib.crc32(np.ascontiguousarray(value.numpy()).view(np.uint8).data, crc)
        return crc

    def go_back(self, checkpoint: Path | None, *, keep: bool = False) -> None:
        """The model begins anew, from a checkpoint, or from what this worker holds: nothing is owed to it."""
        for turns in (self._turns, self._owed, self._counted):
            turns.clear()
        self._copies.clear()
        self._version = self._version if keep else 0
        if checkpoint is not None:
            self.restore(checkpoint)

    def enter(self, place: Place) -> None:
        """Come together with the others, and take rank 0's state."""
        self.wants_change = self.change_agreed = False
        collective.come_together(place, timeout=self._timeout)
        self._world, self._rank = place.world, place.rank
        facts = tf.constant([self._version, self._moved_in, len(self._copies)], tf.int64)
        with peers():
            self._version, self._moved_in, count = self._take(facts).numpy().tolist()
        self._take_copies(count)
        self._see_what_is_owed()
        self._factor = {"none": 1.0, "linear": float(place.size), "sqrt": math.sqrt(place.size)}[
            self._lr_scaling
        ]
        self._check_alike()

    def leave(self) -> None:
        """Leave the world; harmless when in none."""
        collective.leave(agreed=self.change_agreed)

    def abort(self) -> None:
        """From any thread: end what the training waits for in this world."""
        collective.abort()

    def _take_copies(self, count: int) -> None:
        """The snapshots are rank 0's, too."""
        mine = (sorted(self._copies) + [0] * count)[:count]
        versions = collective.array_from_first(np.array(mine, np.int64)).tolist() if count else []
        self._copies = {version: self._copy_from_first(version) for version in versions}

    def _see_what_is_owed(self) -> None:
        self.left_out = self._moved_in > self._began_in
        # A world may end before anything was done in it: what was seen at the last entry is looked at again.
        turns = [] if self.left_out else [*self._counted, *self._owed, *self._turns]
        self._counted = [turn for turn in turns if turn.base < self._version and not turn.ended]
        self._owed = [turn for turn in turns if turn.base >= self._version]
        self._turns, self.settled = [], self._version

    def _check_alike(self) -> None:
        mine = self.checksum()
        if int(collective.array_from_first(np.array([mine], np.int64))[0]) != mine:
            raise ElasticError(f"this worker's weights of version {self._version} are not those of rank 0")

    def _do(self, batch: Any) -> tf.Tensor:
        """One turn of all members; what they agreed on is in the attributes afterwards."""
        turn = _Turn(batch, self._version)
        if batch is not None:
            self._turns.append(turn)
        self._counted.clear()
        self.change_agreed, self._began_in = False, self._world
        rate = self.learning_rate() if self._rank == 0 else 0.0
        wishes = tf.constant([self.wants_change, self.wants_snapshot, rate, 1.0], tf.float32)
        try:
            with peers():
                loss, agreed = (
                    (tf.constant(math.nan), self._without(wishes, tf.constant(0.0)))
                    if batch is None
                    else self._together(batch, wishes)
                )
        except PeerLost:
            raise
        except Exception as error:
            self._turns = [other for other in self._turns if other is not turn]
            raise told(self._network.stage, error) from error
        turn.ended = True
        self._settle(*agreed.numpy().tolist())
        return loss

    def _settle(self, share: float, change: float, snapshot: float, _rate: float) -> None:
        self.settled, self._moved_in = self._version, self._world  # all were there when this turn began
        self._turns = [turn for turn in self._turns if turn.base >= self.settled]
        if share:
            self._version += 1
        self.change_agreed = change > 0
        due = share and any(self._version % steps == 0 for steps in self._snapshot_steps)
        if due or snapshot:
            self.snapshot()
        if snapshot:
            self.wants_snapshot, self.snapshot_taken = False, self._version

    def _traced_turn(self, batch: Any, wishes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        network = self._network
        features, labels = split(batch)
        records = tf.shape(tf.nest.flatten(features)[0])[0]
        share = tf.cast(records, tf.float32) / self._batch_size * wishes[-1]
        before = [tf.identity(v.value) for v in self._state]
        loss, gradients = network.loss_and_gradients(features, labels, weight=share)
        dense = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
        self._gradients = [None if g is None else tf.TensorSpec(g.shape, g.dtype) for g in dense]
        moved = [
            (tf.identity(v.value) - old) * tf.cast(share, old.dtype)
            for v, old in zip(self._state, before, strict=True)
        ]
        for variable, old in zip(self._state, before, strict=True):
            variable.assign(old)  # until all members' changes are known
        agreed = self._apply(share, wishes, dense, moved, before)
        network.stage = "training step"
        return loss, agreed

    def _traced_idle(self, wishes: tf.Tensor, nothing: tf.Tensor) -> tf.Tensor:
        """`nothing` is 0 and comes from outside: the sum of a constant would be taken once, when compiled."""
        none = [None if g is None else tf.fill(g.shape, tf.cast(nothing, g.dtype)) for g in self._gradients]
        before = [tf.identity(v.value) for v in self._state]
        unmoved = [tf.fill(old.shape, tf.cast(nothing, old.dtype)) for old in before]
        return self._apply(nothing, wishes, none, unmoved, before)

    def _apply(
        self, share: tf.Tensor, wishes: tf.Tensor, gradients: list[Any], moved: list[Any], before: list[Any]
    ) -> tf.Tensor:
        """Sum over the world and update; what is summed has the same names in every process."""
        agreed = collective.total(tf.concat([[share], wishes[:-1]], 0), "agreement")
        sums = [None if g is None else self._total(g, f"gradient_{i}") for i, g in enumerate(gradients)]
        states = [collective.total(change, f"state_{i}") for i, change in enumerate(moved)]
        weights = self._network.model.trainable_weights
        with tf.control_dependencies([agreed, *(s for s in sums if s is not None), *states]):
            records = tf.identity(agreed[_SHARE])  # a loss leaves the model as it was, not updated in part

        def update() -> tf.Tensor:
            means = [None if s is None else s / tf.cast(records, s.dtype) for s in sums]
            with _rate_of(self._network.optimizer, agreed[_RATE]):
                self._network.optimizer.apply_gradients(zip(means, weights, strict=True))
            for variable, old, change in zip(self._state, before, states, strict=True):
                variable.assign(old + change / tf.cast(records, change.dtype))
            return tf.constant(0)

        tf.cond(records > 0, update, lambda: tf.constant(0))
        return agreed

    def _total(self, gradient: tf.Tensor, name: str) -> tf.Tensor:
        if self._wire is None or gradient.dtype != tf.float32:
            return collective.total(gradient, name)
        return tf.cast(collective.total(tf.cast(gradient, self._wire), name), gradient.dtype)

    def _traced_take(self, facts: tf.Tensor) -> tf.Tensor:
        """All or nothing: a loss in the midst of it leaves this worker with the state it had."""
        facts, *values = collective.from_first([facts, *self._shared])
        with tf.control_dependencies([facts, *values]):
            for variable, value in zip(self._shared, values, strict=True):
                variable.assign(tf.identity(value))
            return tf.identity(facts)

    def _copy_from_first(self, version: int) -> Copy:
        mine = self._copies.get(version) or self._copy()
        take = collective.array_from_first
        return Copy(
            version,
            Flat(take(mine.model.weights), take(mine.model.state)),
            {name: take(values) for name, values in sorted(mine.slots.items())},
        )


def _is_mean(variable: Any) -> bool:
    """State that averages over workers (batch-norm statistics); counters and seeds are each worker's own."""
    return bool(tf.as_dtype(variable.dtype).is_floating) and _SEED not in variable.path


@contextmanager
def _rate_of(optimizer: Any, rate: tf.Tensor) -> Iterator[None]:
    """Inside, while an update is traced, the optimizer's learning rate is this one, on every rank."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    optimizer._get_current_learning_rate = lambda: rate
    try:
        yield
    finally:
        del optimizer._get_current_learning_rate
