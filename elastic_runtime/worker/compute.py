"""The computing half of a worker: what is done with each kind of work, by the model on the records.

Everything here runs on the main thread but `deliver`, which the shard supply calls to read records ahead.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_runtime.data import storage
from elastic_runtime.data.readers import Reader
from elastic_runtime.errors import ElasticError
from elastic_runtime.model.callbacks import Callbacks
from elastic_runtime.model.export import export
from elastic_runtime.model.network import split
from elastic_runtime.model.user_code import user_code
from elastic_runtime.rpc import master_pb2
from elastic_runtime.worker.feed import ShardFeed
from elastic_runtime.worker.metrics import Evaluator
from elastic_runtime.worker.reports import from_metric_states, metric_states
from elastic_runtime.worker.trainers.base import Holder, StepResult, Trainer
from elastic_runtime.worker.trainers.local import LocalTrainer
from elastic_runtime.worker.trainers.ps import PSTrainer
from elastic_runtime.worker.work import Work

if TYPE_CHECKING:
    from elastic_runtime.worker.allreduce.trainer import AllreduceTrainer

log = logging.getLogger(__name__)

FEEDS: dict[int, str] = {
    master_pb2.TRAINING: "training",
    master_pb2.EVALUATION: "evaluation",
    master_pb2.PREDICTION: "prediction",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One minibatch to run between two looks at the orders, and how to measure the progress it made."""

    run: Callable[[], None]
    measure: Callable[[], master_pb2.Progress]
    records: int = 0


RunStep = Callable[[Work, Step], None]


class Compute:
    """Does the work: one trainer, one feed for each kind of records, one evaluator."""

    def __init__(
        self,
        *,
        trainer: Trainer,
        together: AllreduceTrainer | None = None,
        readers: Mapping[int, Reader],
        feeds: Mapping[int, ShardFeed],
        evaluator: Evaluator | None,
        processor: Any,
        callbacks: Callbacks,
        element_spec: Any,
        worker_id: int,
        batch_size: int,
        log_loss_steps: int,
        snapshot_steps: Sequence[int] = (),
        max_step: int = 0,
    ) -> None:
        self.trainer, self.together = trainer, together
        self._element_spec = element_spec
        self._batch_size, self._snapshot_steps = batch_size, [n for n in snapshot_steps if n]
        self._max_step = max_step
        self._shown: int | None = None
        self._view = ExitStack()
        self._readers, self._feeds = readers, feeds
        self._evaluator, self._processor = evaluator, processor
        self._callbacks, self._begun = callbacks, False
        self._worker_id, self._log_loss_steps = worker_id, log_loss_steps
        self._last_logged = -1

    def deliver(self, number: int, reply: master_pb2.LeaseReply) -> int:
        """Read the records of a lease and put them where `perform` will look for them."""
        kind, shard = reply.key.kind, reply.shard
        if kind not in self._feeds:
            return 0
        records = self._readers[kind].read(shard.source, shard.start, shard.end)
        self._feeds[kind].put(number, records)
        return len(records)

    def forget_delivered(self) -> None:
        """What was read ahead is void."""
        for feed in self._feeds.values():
            feed.discard_all()

    def perform(self, work: Work, run_step: RunStep) -> master_pb2.Finished:
        """Carry out one piece of work; `run_step` runs each minibatch at a moment of its own choice."""
        match work.kind:
            case master_pb2.TRAINING:
                return self._train(work, run_step)
            case master_pb2.EVALUATION:
                return self._evaluate(work, run_step)
            case master_pb2.EVALUATION_RESULT:
                return self._result(work)
            case master_pb2.PREDICTION:
                return self._predict(work, run_step)
            case master_pb2.EXPORT:
                return self._export(work, run_step)
            case master_pb2.LIST_SOURCES:
                return self._list_sources(work)
        raise ElasticError(
            f"work of an unknown kind {work.kind}", remedy="master and worker are of different versions"
        )

    def _train(self, work: Work, run_step: RunStep) -> master_pb2.Finished:
        done, result = 0, None
        self._begin_training()

        def measure() -> master_pb2.Progress:
            return master_pb2.Progress(
                records=min(done, work.records),
                version=self.trainer.version,
                loss=_told(result.loss) if result else math.nan,
                learning_rate=self.trainer.learning_rate(),
            )

        for batch in self._feeds[work.kind].batches(work.number):

            def run(batch: Any = batch) -> None:
                nonlocal result, done
                self._callbacks.batch_begin(self.trainer.version)
                result = self.trainer.train_batch(batch)
                self._callbacks.batch_end(result.version, result.fetch_loss)
                done += self._batch_size
                if any(result.version % steps == 0 for steps in self._snapshot_steps):
                    self.holder.snapshot()
                self._log_loss(result)

            run_step(work, Step(run, measure, self._batch_size))
        return master_pb2.Finished(
            records=work.records,
            version=self.trainer.version,
            loss=_told(result.loss) if result else math.nan,
            stop_training=self.stop_requested,
        )

    @property
    def stop_requested(self) -> bool:
        """A callback asked for the end of the training."""
        return self._callbacks.stop_requested

    def enough(self) -> str:
        """Why the model is trained no further; empty while it is."""
        if self.stop_requested:
            return "a callback stopped the training"
        if self._max_step and self.trainer.version >= self._max_step:
            return f"max_step {self._max_step} reached"
        return ""

    def _begin_training(self) -> None:
        self._show(None)
        if not self._begun:
            self._begun = True
            self._callbacks.train_begin()

    def _evaluate(self, work: Work, run_step: RunStep) -> master_pb2.Finished:
        evaluator = self._judge()
        evaluator.reset()
        for features, labels in self._feeds[work.kind].batches(work.number):

            def run(features: Any = features, labels: Any = labels) -> None:
                self._show(work.reply.snapshot)
                evaluator.update(labels, self.trainer.predict_batch(features))

            run_step(work, Step(run, master_pb2.Progress))
        return master_pb2.Finished(records=work.records, states=metric_states(evaluator.state()))

    def _result(self, work: Work) -> master_pb2.Finished:
        figures = self._judge().result(from_metric_states(list(work.reply.states)))
        return master_pb2.Finished(metrics=figures)

    def _predict(self, work: Work, run_step: RunStep) -> master_pb2.Finished:
        for batch in self._feeds[work.kind].batches(work.number):

            def run(batch: Any = batch) -> None:
                outputs = self.trainer.predict_batch(split(batch)[0])
                with user_code("prediction_outputs_processor"):
                    self._processor.process(outputs, self._worker_id)

            run_step(work, Step(run, master_pb2.Progress, self._batch_size))
        return master_pb2.Finished(records=work.records)

    def _export(self, work: Work, run_step: RunStep) -> master_pb2.Finished:
        run_step(work, Step(lambda: self._show(0), master_pb2.Progress))  # its holders may be away
        with storage.folder_to_fill(work.reply.output) as folder:
            export(self.trainer.model, folder, split(self._element_spec)[0])
        return master_pb2.Finished(output=work.reply.output)

    def _list_sources(self, work: Work) -> master_pb2.Finished:
        kind = next(k for k, name in FEEDS.items() if name == work.reply.shard.source)
        found = [
            master_pb2.Shard(source=s.name, start=s.start, end=s.start + s.records)
            for s in self._readers[kind].sources()
        ]
        return master_pb2.Finished(sources=found)

    def show_present(self) -> None:
        """Have the model hold the present state again, if a snapshot is shown."""
        self._show(None)

    def go_back(self) -> None:
        """The model goes back to an earlier state: what is shown of it and what was read ahead is void."""
        self.show_present()
        self.forget_delivered()
        self._callbacks.forget_stop()

    def enter(self, topology: master_pb2.Topology) -> None:
        """Begin an era of the model."""
        self.go_back()
        if topology.ps_addresses:
            assert self.copier is not None
            self.copier.connect(topology.ps_addresses, topology.era)
        elif topology.restore_from:
            self.holder.restore(Path(topology.restore_from))

    def _show(self, snapshot: int | None) -> None:
        """Have the model hold a snapshot (0: the present) until another is shown; None: the one to train."""
        if snapshot != self._shown:
            self._view.close()
            self._shown = None
            if snapshot is not None:
                self._view.enter_context(self.trainer.evaluating(snapshot))
                self._shown = snapshot

    @property
    def holder(self) -> Holder:
        """The trainer, where it holds the model itself."""
        assert isinstance(self.trainer, LocalTrainer)
        return self.trainer

    @property
    def copier(self) -> PSTrainer | None:
        """The trainer, where it has but a copy of the model."""
        return self.trainer if isinstance(self.trainer, PSTrainer) else None

    def idle(self) -> bool:
        """A turn of the world without records of this worker's own; whether the model moved on."""
        assert self.together is not None
        self._begin_training()
        self._callbacks.batch_begin(self.trainer.version)
        return self.together.idle()

    def finish(self) -> None:
        """The work is over: callbacks hear of it."""
        if self._begun:
            self._callbacks.train_end()

    def close(self) -> None:
        """End the pipelines and let go of the model's holders."""
        for feed in self._feeds.values():
            feed.close()
        if self.copier is not None:
            self.copier.close()

    def _judge(self) -> Evaluator:
        if self._evaluator is None:
            raise ElasticError(
                "the model has no eval_metrics_fn", remedy="define it, or leave --validation_data out"
            )
        return self._evaluator

    def _log_loss(self, result: StepResult) -> None:
        """`Loss = x, steps = n` at the first step and then once each `log_loss_steps` versions."""
        due = result.version // self._log_loss_steps
        if due > self._last_logged:
            self._last_logged = due
            log.info("Loss = %s, steps = %d", result.loss, result.version)


def _told(loss: float) -> float:
    """NaN means `no loss` on the wire, so a loss that is not a number goes as infinity."""
    return math.inf if math.isnan(loss) else loss
