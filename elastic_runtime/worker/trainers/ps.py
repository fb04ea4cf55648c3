"""Parameter-server strategy: this process computes gradients, parameter servers apply them.

A step pulls the model if it changed, runs one compiled forward and backward pass, and pushes one flat
gradient. State such as batch-norm statistics travels as the change the pass made to it, so that the changes
of several workers add up. A push that found no answer is kept and sent again as the same push; one that
came too late is computed anew on the newer model.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from elastic_runtime.errors import ElasticError
from elastic_runtime.model.module import ModelModule
from elastic_runtime.model.network import Network, split
from elastic_runtime.model.optimizer import LearningRate, optimizer_config
from elastic_runtime.model.user_code import told
from elastic_runtime.ps.client import PSClient, PSRefused, PSUnavailable, PushResult, Reason
from elastic_runtime.worker.trainers.base import SnapshotLost, StepResult

log = logging.getLogger(__name__)

MANY_REFUSALS = 20
_PASSING = {Reason.ERA, Reason.NOT_INITIALISED, Reason.TIMED_OUT, Reason.ENDING}


@dataclass(slots=True)
class _Pending:
    """A gradient that was computed and not yet accepted."""

    batch: Any
    loss: tf.Tensor
    gradient: np.ndarray
    state_delta: np.ndarray
    version: int
    rate: float
    sent: bool = False


class PSTrainer:
    """Trains against parameter servers."""

    def __init__(
        self,
        module: ModelModule,
        *,
        worker: str,
        incarnation: str,
        token: str,
        use_async: bool,
        pull_every: int,
        seed: int,
    ) -> None:
        self._network = Network(module)
        self._worker, self._incarnation, self._token = worker, incarnation, token
        self._use_async, self._pull_every, self._seed = use_async, pull_every, seed
        self._client: PSClient | None = None
        self._version = -1
        self._pulled = -1
        self._steps = 0
        self._refusals = 0
        self._pending: _Pending | None = None

    @property
    def version(self) -> int:
        """Of the model after the newest push."""
        return max(self._version, 0)

    @property
    def copy_version(self) -> int:
        """Of the copy in this process, -1 without one."""
        return self._pulled

    @property
    def model(self) -> Any:
        """The Keras model."""
        return self._network.model

    def build(self, element_spec: Any) -> None:
        """Create the variables and trace the step once, for batches of any size."""
        network = self._network
        self._flat = network.build(element_spec, seed=self._seed)
        self._weights, self._state = self._flat.read()
        self._config = optimizer_config(network.optimizer)
        self._rate = LearningRate(network.optimizer)
        self._step = tf.function(self._traced_step, input_signature=[element_spec])
        self._predict = tf.function(network.predict, reduce_retracing=True)

    def connect(self, addresses: Sequence[str], era: int) -> None:
        """Take part in an era of the model, which all servers hold: another worker's `upload` may be due."""
        self._pending = None
        self._open(addresses, era)
        self._version = -1
        with _passing_refusals():
            self._client_now.join(self._flat.layout, self._config)
        self._pulled = self._fetch()
        self._flat.assign(self._weights, self._state)

    def abandon(self) -> None:
        """A part of the model is lost: wait for the others no longer. From any thread."""
        if self._client is not None:
            self._client.abandon()

    def upload(self, addresses: Sequence[str], era: int) -> None:
        """Make this process's copy, or its first values, the model of a new era: the master chose it."""
        self._pending = None
        self._open(addresses, era)
        with _passing_refusals():
            brought = self._client_now.initialize(
                self._flat.layout, self._weights, self._state, self._config, version=max(self._pulled, 0)
            )
        self._client_now.abandon()  # the era has not begun: nothing is trained before `connect`
        if brought.already:
            raise PSUnavailable(f"a parameter server has a model of era {era} already")

    def train_batch(self, batch: Any) -> StepResult:
        """Compute a gradient and have it applied; after an error the same batch goes on where that came."""
        pending = self._pending
        if pending is None or pending.batch is not batch:
            self._pull_if_due()
            pending = self._compute(batch)
        while True:
            self._pending = pending
            result = self._push(pending)
            if result.accepted:
                break
            self._pending = None
            self._refused(result)
            self._pull(0)
            pending = self._compute(batch)
        self._pending, self._refusals = None, 0
        self._version = result.version
        self._steps += 1
        return StepResult(self._version, pending.loss.numpy)

    def predict_batch(self, features: Any) -> Any:
        """The model's outputs, as tensors."""
        try:
            return self._predict(features)
        except Exception as error:
            raise told("model", error) from error

    def learning_rate(self) -> float:
        """The rate of the next update."""
        return self._rate.at(self.version)

    @contextmanager
    def evaluating(self, version: int) -> Iterator[None]:
        """Inside, the model holds that snapshot (0: the present model); afterwards the copy to train on."""
        weights, state = np.empty_like(self._weights), np.empty_like(self._state)
        with _passing_refusals():
            self._client_now.pull(weights, state, snapshot=version)
        self._flat.assign(weights, state)
        try:
            yield
        finally:
            self._flat.assign(self._weights, self._state)

    def close(self) -> None:
        """Close the lines to the parameter servers."""
        if self._client is not None:
            self._client.close()

    def _open(self, addresses: Sequence[str], era: int) -> None:
        self.close()
        self._client = PSClient(
            addresses,
            worker=self._worker,
            incarnation=self._incarnation,
            token=self._token,
            era=era,
            use_async=self._use_async,
        )

    def _pull_if_due(self) -> None:
        if self._pulled < 0 or self._steps % self._pull_every == 0:
            self._pull(0 if self._use_async else max(self._version, 0))

    def _push(self, pending: _Pending) -> PushResult:
        again, pending.sent = pending.sent, True
        return self._client_now.push(
            pending.gradient,
            pending.state_delta,
            version=pending.version,
            learning_rate=pending.rate,
            retry=again,
        )

    def _pull(self, min_version: int) -> None:
        version = self._fetch(have_version=self._pulled, min_version=min_version)
        if version != self._pulled:
            self._pulled = version
            self._flat.assign(self._weights, self._state)

    def _fetch(self, **what: int) -> int:
        """Fill the buffers. One that broke off leaves a mixture there: the copy is in the variables still."""
        try:
            with _passing_refusals():
                return self._client_now.pull(self._weights, self._state, **what)
        except ElasticError:
            self._weights, self._state = self._flat.read()
            raise

    def _compute(self, batch: Any) -> _Pending:
        try:
            loss, gradient, state = self._step(batch)
            delta = state.numpy() - self._state
        except Exception as error:
            raise told(self._network.stage, error) from error
        return _Pending(batch, loss, gradient.numpy(), delta, self._pulled, self._rate.at(self._pulled))

    def _traced_step(self, batch: Any) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        loss, gradients = self._network.loss_and_gradients(*split(batch))
        self._network.stage = "training step"
        with tf.control_dependencies([loss]):
            return loss, self._flat.flatten(gradients), self._flat.state_now()

    def _refused(self, result: PushResult) -> None:
        """Late gradients are ordinary in sync mode; what passes is waited for; the rest fails the shard."""
        if result.reason in _PASSING:
            raise PSUnavailable(f"the gradient was not taken: {result.detail}")
        if result.reason is not Reason.STALE:
            raise ElasticError(f"the gradient was refused: {result.detail}", where="parameter server")
        self._refusals += 1
        if self._refusals == MANY_REFUSALS:
            log.warning(
                "%d gradients in a row came too late: other workers are faster than this one"
                " (--use_async, more --grads_to_wait, or --sync_version_tolerance let its work count)",
                self._refusals,
            )

    @property
    def _client_now(self) -> PSClient:
        if self._client is None:
            raise ElasticError("the parameter servers are not known yet")
        return self._client


@contextmanager
def _passing_refusals() -> Iterator[None]:
    """A refusal that a new era or a little time cures is an absence of the model, not an error."""
    try:
        yield
    except PSRefused as refusal:
        if refusal.reason in _PASSING:
            raise PSUnavailable(str(refusal)) from refusal
        if refusal.reason is Reason.NO_SNAPSHOT:
            raise SnapshotLost(refusal.what, where=refusal.where) from refusal
        raise
