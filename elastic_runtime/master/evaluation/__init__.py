"""Evaluation of the model at defined versions, sharded like training.

A plain state machine, driven as the ledger is: `handle(event)`, journal the event if `changes(effects)`,
act. Let a worker's `Ask` pass here before it goes to the training ledger. When training is over, say
`FinalModel`; the job may end once `idle`. After a restart: `restore`, replay, `Resumed`, and `Began` if
training goes on.
"""

from elastic_runtime.master.evaluation.evaluation import Evaluation
from elastic_runtime.master.evaluation.events import (
    Began,
    Effect,
    EvaluationCancelled,
    EvaluationFinished,
    EvaluationPlanned,
    EvaluationSkipped,
    EvaluationStarted,
    Event,
    FinalModel,
    Granted,
    Kind,
    PartDone,
    ResultReported,
    ResultWanted,
    SnapshotFailed,
    SnapshotFree,
    SnapshotLost,
    SnapshotWanted,
    Tick,
    VersionReached,
    decode,
    encode,
)
from elastic_runtime.master.evaluation.states import MetricState

__all__ = [
    "Began",
    "Effect",
    "Evaluation",
    "EvaluationCancelled",
    "EvaluationFinished",
    "EvaluationPlanned",
    "EvaluationSkipped",
    "EvaluationStarted",
    "Event",
    "FinalModel",
    "Granted",
    "Kind",
    "MetricState",
    "PartDone",
    "ResultReported",
    "ResultWanted",
    "SnapshotFailed",
    "SnapshotFree",
    "SnapshotLost",
    "SnapshotWanted",
    "Tick",
    "VersionReached",
    "decode",
    "encode",
]
