"""Makes the computing half of a worker from the specification: module, trainer, readers, feeds, metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import keras

from elastic_runtime.data.readers import Metadata, Reader, adapt, open_reader
from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.model.callbacks import Callbacks
from elastic_runtime.model.module import ModelModule, load
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.job import JobSpec, Kind
from elastic_runtime.spec.model_path import resolve
from elastic_runtime.spec.model_text import renamed
from elastic_runtime.worker.compute import FEEDS, Compute
from elastic_runtime.worker.failure import NotFoundHere
from elastic_runtime.worker.feed import ShardFeed
from elastic_runtime.worker.metrics import Evaluator
from elastic_runtime.worker.trainers.base import Trainer
from elastic_runtime.worker.trainers.local import LocalTrainer
from elastic_runtime.worker.trainers.ps import PSTrainer

if TYPE_CHECKING:
    from elastic_runtime.worker.allreduce.trainer import AllreduceTrainer

log = logging.getLogger(__name__)


def build(spec: JobSpec, *, worker: str, worker_id: int, incarnation: str, token: str) -> Compute:
    """Everything that computes, ready for its first era."""
    keras.utils.set_random_seed(spec.seed)
    module = _module(spec)
    readers = _readers(spec, module)
    feeds = {kind: _feed(spec, module, kind, reader) for kind, reader in readers.items()}
    trainer = _trainer(spec, module, worker=worker, worker_id=worker_id, incarnation=incarnation, token=token)
    element_spec = next(iter(feeds.values())).element_spec
    trainer.build(element_spec)
    trains = spec.kind is Kind.TRAINING
    local, together = spec.distribution_strategy == "Local", spec.distribution_strategy == "AllreduceStrategy"
    return Compute(
        trainer=trainer,
        together=cast("AllreduceTrainer", trainer) if trains and together else None,
        readers=readers,
        feeds=feeds,
        evaluator=_evaluator(module, trainer, feeds[master_pb2.EVALUATION]) if spec.validation_data else None,
        processor=_processor(module) if spec.prediction_data else None,
        callbacks=Callbacks(
            module.create_callbacks(),
            model=trainer.model,
            params={
                "batch_size": spec.minibatch_size,
                "saved_model_path": spec.output,
                "checkpoint_path": spec.checkpoint_dir,
            },
        ),
        element_spec=element_spec,
        worker_id=worker_id,
        batch_size=spec.minibatch_size,
        log_loss_steps=spec.log_loss_steps,
        snapshot_steps=(spec.evaluation_steps, spec.checkpoint_steps) if trains and local else (),
        max_step=spec.max_step,
    )


def _module(spec: JobSpec) -> ModelModule:
    path = resolve(spec.model_zoo, spec.model_def)
    zoo = Path(spec.model_zoo) if spec.model_zoo else None
    return load(path.file, path.symbol, names=renamed(spec), model_params=spec.model_arguments, zoo=zoo)


def _readers(spec: JobSpec, module: ModelModule) -> dict[int, Reader]:
    origins = {
        master_pb2.TRAINING: spec.training_data,
        master_pb2.EVALUATION: spec.validation_data,
        master_pb2.PREDICTION: spec.prediction_data,
    }
    return {kind: _reader(spec, module, origin) for kind, origin in origins.items() if origin}


def _reader(spec: JobSpec, module: ModelModule, origin: str) -> Reader:
    arguments: Mapping[str, Any] = spec.reader_arguments
    if module.custom_data_reader is not None:
        return adapt(module.custom_data_reader(origin, records_per_task=spec.records_per_task, **arguments))
    try:
        return open_reader(origin, {name: str(value) for name, value in arguments.items()})
    except ElasticError as problem:  # the master has opened the same before
        raise NotFoundHere(problem.what, where=problem.where, remedy=problem.remedy) from problem


def _feed(spec: JobSpec, module: ModelModule, kind: int, reader: Reader) -> ShardFeed:
    metadata = reader.metadata if isinstance(reader.metadata, Metadata) else Metadata()
    return ShardFeed(feed=module.feed, mode=FEEDS[kind], metadata=metadata, batch_size=spec.minibatch_size)


def _trainer(
    spec: JobSpec, module: ModelModule, *, worker: str, worker_id: int, incarnation: str, token: str
) -> Trainer:
    if spec.kind is not Kind.TRAINING or spec.distribution_strategy == "Local":
        return LocalTrainer(module, seed=worker_id)
    if spec.distribution_strategy == "ParameterServerStrategy":
        return PSTrainer(
            module,
            worker=worker,
            incarnation=incarnation,
            token=token,
            use_async=spec.use_async,
            pull_every=spec.get_model_steps,
            seed=worker_id,
        )
    from elastic_runtime.worker.allreduce.trainer import AllreduceTrainer

    return AllreduceTrainer(
        module,
        seed=worker_id,
        batch_size=spec.minibatch_size,
        compression=spec.gradient_compression,
        lr_scaling=spec.lr_scaling,
        snapshot_steps=(spec.evaluation_steps, spec.checkpoint_steps),
        timeout=spec.collective_timeout,
    )


def _processor(module: ModelModule) -> Any:
    if module.create_prediction_outputs_processor is None:
        raise InputError(
            "the module has no PredictionOutputsProcessor",
            where=str(module.path),
            remedy="define one: a class with process(predictions, worker_id)",
        )
    return module.create_prediction_outputs_processor()


def _evaluator(module: ModelModule, trainer: Trainer, feed: ShardFeed) -> Evaluator:
    evaluator = Evaluator(module.create_metrics())
    evaluator.build(feed.element_spec, trainer.predict_batch)
    return evaluator
