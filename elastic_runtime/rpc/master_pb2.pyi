from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_PS: _ClassVar[Role]
    ROLE_WORKER: _ClassVar[Role]

class LeaseKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEASE_KIND_UNSPECIFIED: _ClassVar[LeaseKind]
    TRAINING: _ClassVar[LeaseKind]
    EVALUATION: _ClassVar[LeaseKind]
    EVALUATION_RESULT: _ClassVar[LeaseKind]
    PREDICTION: _ClassVar[LeaseKind]
    EXPORT: _ClassVar[LeaseKind]
    LIST_SOURCES: _ClassVar[LeaseKind]
ROLE_UNSPECIFIED: Role
ROLE_PS: Role
ROLE_WORKER: Role
LEASE_KIND_UNSPECIFIED: LeaseKind
TRAINING: LeaseKind
EVALUATION: LeaseKind
EVALUATION_RESULT: LeaseKind
PREDICTION: LeaseKind
EXPORT: LeaseKind
LIST_SOURCES: LeaseKind

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Member(_message.Message):
    __slots__ = ("role", "name", "index", "address", "incarnation", "pid", "state", "version", "era", "world", "rank")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    role: Role
    name: str
    index: int
    address: str
    incarnation: str
    pid: int
    state: str
    version: int
    era: int
    world: int
    rank: int
    def __init__(self, role: _Optional[_Union[Role, str]] = ..., name: _Optional[str] = ..., index: _Optional[int] = ..., address: _Optional[str] = ..., incarnation: _Optional[str] = ..., pid: _Optional[int] = ..., state: _Optional[str] = ..., version: _Optional[int] = ..., era: _Optional[int] = ..., world: _Optional[int] = ..., rank: _Optional[int] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("topology", "save", "snapshot", "drop_snapshot", "drain", "offer_copy", "release", "call_in", "enough")
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    SAVE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DROP_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    OFFER_COPY_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CALL_IN_FIELD_NUMBER: _ClassVar[int]
    ENOUGH_FIELD_NUMBER: _ClassVar[int]
    topology: Topology
    save: SaveOrder
    snapshot: SnapshotOrder
    drop_snapshot: DropSnapshotOrder
    drain: DrainOrder
    offer_copy: OfferCopyOrder
    release: ReleaseOrder
    call_in: CallInOrder
    enough: EnoughOrder
    def __init__(self, topology: _Optional[_Union[Topology, _Mapping]] = ..., save: _Optional[_Union[SaveOrder, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotOrder, _Mapping]] = ..., drop_snapshot: _Optional[_Union[DropSnapshotOrder, _Mapping]] = ..., drain: _Optional[_Union[DrainOrder, _Mapping]] = ..., offer_copy: _Optional[_Union[OfferCopyOrder, _Mapping]] = ..., release: _Optional[_Union[ReleaseOrder, _Mapping]] = ..., call_in: _Optional[_Union[CallInOrder, _Mapping]] = ..., enough: _Optional[_Union[EnoughOrder, _Mapping]] = ...) -> None: ...

class Topology(_message.Message):
    __slots__ = ("era", "ps_addresses", "ready", "restore_from")
    ERA_FIELD_NUMBER: _ClassVar[int]
    PS_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FROM_FIELD_NUMBER: _ClassVar[int]
    era: int
    ps_addresses: _containers.RepeatedScalarFieldContainer[str]
    ready: bool
    restore_from: str
    def __init__(self, era: _Optional[int] = ..., ps_addresses: _Optional[_Iterable[str]] = ..., ready: _Optional[bool] = ..., restore_from: _Optional[str] = ...) -> None: ...

class SaveOrder(_message.Message):
    __slots__ = ("version", "directory")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    version: int
    directory: str
    def __init__(self, version: _Optional[int] = ..., directory: _Optional[str] = ...) -> None: ...

class SnapshotOrder(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DropSnapshotOrder(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class ReleaseOrder(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class EnoughOrder(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class DrainOrder(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class OfferCopyOrder(_message.Message):
    __slots__ = ("era", "ps_addresses")
    ERA_FIELD_NUMBER: _ClassVar[int]
    PS_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    era: int
    ps_addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, era: _Optional[int] = ..., ps_addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class CallInOrder(_message.Message):
    __slots__ = ("world", "reason", "void")
    WORLD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VOID_FIELD_NUMBER: _ClassVar[int]
    world: int
    reason: str
    void: bool
    def __init__(self, world: _Optional[int] = ..., reason: _Optional[str] = ..., void: _Optional[bool] = ...) -> None: ...

class WorldRequest(_message.Message):
    __slots__ = ("member", "incarnation", "left", "era", "version", "checksum", "wait_seconds")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    member: str
    incarnation: str
    left: int
    era: int
    version: int
    checksum: int
    wait_seconds: float
    def __init__(self, member: _Optional[str] = ..., incarnation: _Optional[str] = ..., left: _Optional[int] = ..., era: _Optional[int] = ..., version: _Optional[int] = ..., checksum: _Optional[int] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class WorldReply(_message.Message):
    __slots__ = ("world", "rank", "size", "store", "era", "restore_from", "keep", "end")
    WORLD_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FROM_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    world: int
    rank: int
    size: int
    store: str
    era: int
    restore_from: str
    keep: bool
    end: bool
    def __init__(self, world: _Optional[int] = ..., rank: _Optional[int] = ..., size: _Optional[int] = ..., store: _Optional[str] = ..., era: _Optional[int] = ..., restore_from: _Optional[str] = ..., keep: _Optional[bool] = ..., end: _Optional[bool] = ...) -> None: ...

class LeaseKey(_message.Message):
    __slots__ = ("kind", "epoch", "shard", "attempt", "era")
    KIND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    kind: LeaseKind
    epoch: int
    shard: int
    attempt: int
    era: int
    def __init__(self, kind: _Optional[_Union[LeaseKind, str]] = ..., epoch: _Optional[int] = ..., shard: _Optional[int] = ..., attempt: _Optional[int] = ..., era: _Optional[int] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("source", "start", "end")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    source: str
    start: int
    end: int
    def __init__(self, source: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "era", "wait_seconds", "serial")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: str
    era: int
    wait_seconds: float
    serial: int
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[str] = ..., era: _Optional[int] = ..., wait_seconds: _Optional[float] = ..., serial: _Optional[int] = ...) -> None: ...

class LeaseReply(_message.Message):
    __slots__ = ("answer", "key", "shard", "states", "output", "version", "snapshot")
    class Answer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[LeaseReply.Answer]
        GRANTED: _ClassVar[LeaseReply.Answer]
        WAIT: _ClassVar[LeaseReply.Answer]
        END: _ClassVar[LeaseReply.Answer]
        REJOIN: _ClassVar[LeaseReply.Answer]
    UNSPECIFIED: LeaseReply.Answer
    GRANTED: LeaseReply.Answer
    WAIT: LeaseReply.Answer
    END: LeaseReply.Answer
    REJOIN: LeaseReply.Answer
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    answer: LeaseReply.Answer
    key: LeaseKey
    shard: Shard
    states: _containers.RepeatedCompositeFieldContainer[MetricState]
    output: str
    version: int
    snapshot: int
    def __init__(self, answer: _Optional[_Union[LeaseReply.Answer, str]] = ..., key: _Optional[_Union[LeaseKey, _Mapping]] = ..., shard: _Optional[_Union[Shard, _Mapping]] = ..., states: _Optional[_Iterable[_Union[MetricState, _Mapping]]] = ..., output: _Optional[str] = ..., version: _Optional[int] = ..., snapshot: _Optional[int] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("shape", "dtype", "data")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    dtype: str
    data: bytes
    def __init__(self, shape: _Optional[_Iterable[int]] = ..., dtype: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class MetricState(_message.Message):
    __slots__ = ("name", "variables", "rule")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    name: str
    variables: _containers.RepeatedCompositeFieldContainer[Tensor]
    rule: str
    def __init__(self, name: _Optional[str] = ..., variables: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., rule: _Optional[str] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "key", "progress", "finished", "failed", "given_back", "effort")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    GIVEN_BACK_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: str
    key: LeaseKey
    progress: Progress
    finished: Finished
    failed: Failed
    given_back: GivenBack
    effort: Effort
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[str] = ..., key: _Optional[_Union[LeaseKey, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., given_back: _Optional[_Union[GivenBack, _Mapping]] = ..., effort: _Optional[_Union[Effort, _Mapping]] = ...) -> None: ...

class Effort(_message.Message):
    __slots__ = ("seconds", "records")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    records: int
    def __init__(self, seconds: _Optional[float] = ..., records: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("records", "version", "loss", "learning_rate")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    records: int
    version: int
    loss: float
    learning_rate: float
    def __init__(self, records: _Optional[int] = ..., version: _Optional[int] = ..., loss: _Optional[float] = ..., learning_rate: _Optional[float] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("records", "version", "loss", "states", "metrics", "sources", "stop_training", "output")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    STOP_TRAINING_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    records: int
    version: int
    loss: float
    states: _containers.RepeatedCompositeFieldContainer[MetricState]
    metrics: _containers.ScalarMap[str, float]
    sources: _containers.RepeatedCompositeFieldContainer[Shard]
    stop_training: bool
    output: str
    def __init__(self, records: _Optional[int] = ..., version: _Optional[int] = ..., loss: _Optional[float] = ..., states: _Optional[_Iterable[_Union[MetricState, _Mapping]]] = ..., metrics: _Optional[_Mapping[str, float]] = ..., sources: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., stop_training: _Optional[bool] = ..., output: _Optional[str] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("error", "traceback", "fatal", "snapshot_lost")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_LOST_FIELD_NUMBER: _ClassVar[int]
    error: str
    traceback: str
    fatal: bool
    snapshot_lost: bool
    def __init__(self, error: _Optional[str] = ..., traceback: _Optional[str] = ..., fatal: _Optional[bool] = ..., snapshot_lost: _Optional[bool] = ...) -> None: ...

class GivenBack(_message.Message):
    __slots__ = ("reason", "records", "version", "stop_training")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STOP_TRAINING_FIELD_NUMBER: _ClassVar[int]
    reason: str
    records: int
    version: int
    stop_training: bool
    def __init__(self, reason: _Optional[str] = ..., records: _Optional[int] = ..., version: _Optional[int] = ..., stop_training: _Optional[bool] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("accepted", "reason")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    reason: str
    def __init__(self, accepted: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class ReachedRequest(_message.Message):
    __slots__ = ("member", "era", "version")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    member: str
    era: int
    version: int
    def __init__(self, member: _Optional[str] = ..., era: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class SavedRequest(_message.Message):
    __slots__ = ("member", "era", "version", "directory", "error")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    member: str
    era: int
    version: int
    directory: str
    error: str
    def __init__(self, member: _Optional[str] = ..., era: _Optional[int] = ..., version: _Optional[int] = ..., directory: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("member", "incarnation", "reason", "error", "traceback", "fatal")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    member: str
    incarnation: str
    reason: str
    error: str
    traceback: str
    fatal: bool
    def __init__(self, member: _Optional[str] = ..., incarnation: _Optional[str] = ..., reason: _Optional[str] = ..., error: _Optional[str] = ..., traceback: _Optional[str] = ..., fatal: _Optional[bool] = ...) -> None: ...

class SettingsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SettingsReply(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: str
    def __init__(self, spec: _Optional[str] = ...) -> None: ...

class CopyRequest(_message.Message):
    __slots__ = ("member", "era", "version")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    member: str
    era: int
    version: int
    def __init__(self, member: _Optional[str] = ..., era: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class CopyReply(_message.Message):
    __slots__ = ("upload",)
    UPLOAD_FIELD_NUMBER: _ClassVar[int]
    upload: bool
    def __init__(self, upload: _Optional[bool] = ...) -> None: ...

class UploadedRequest(_message.Message):
    __slots__ = ("member", "era", "version", "error")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    member: str
    era: int
    version: int
    error: str
    def __init__(self, member: _Optional[str] = ..., era: _Optional[int] = ..., version: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PodStatus(_message.Message):
    __slots__ = ("name", "role", "index", "state", "pid", "started", "relaunched_because", "waits_for")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    RELAUNCHED_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    index: int
    state: str
    pid: int
    started: float
    relaunched_because: str
    waits_for: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., state: _Optional[str] = ..., pid: _Optional[int] = ..., started: _Optional[float] = ..., relaunched_because: _Optional[str] = ..., waits_for: _Optional[str] = ...) -> None: ...

class Interval(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class SourceLedger(_message.Message):
    __slots__ = ("source", "records", "done")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    source: str
    records: int
    done: _containers.RepeatedCompositeFieldContainer[Interval]
    def __init__(self, source: _Optional[str] = ..., records: _Optional[int] = ..., done: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ...) -> None: ...

class EpochLedger(_message.Message):
    __slots__ = ("epoch", "records", "records_done", "sources")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_DONE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    records: int
    records_done: int
    sources: _containers.RepeatedCompositeFieldContainer[SourceLedger]
    def __init__(self, epoch: _Optional[int] = ..., records: _Optional[int] = ..., records_done: _Optional[int] = ..., sources: _Optional[_Iterable[_Union[SourceLedger, _Mapping]]] = ...) -> None: ...

class EvaluationResult(_message.Message):
    __slots__ = ("version", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    version: int
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, version: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("job", "status", "message", "version", "epoch", "epochs", "records_done", "records_total", "records_retrained", "loss", "records_per_second", "pods", "ledger", "evaluations")
    JOB_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_DONE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    RECORDS_RETRAINED_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    job: str
    status: str
    message: str
    version: int
    epoch: int
    epochs: int
    records_done: int
    records_total: int
    records_retrained: int
    loss: float
    records_per_second: float
    pods: _containers.RepeatedCompositeFieldContainer[PodStatus]
    ledger: _containers.RepeatedCompositeFieldContainer[EpochLedger]
    evaluations: _containers.RepeatedCompositeFieldContainer[EvaluationResult]
    def __init__(self, job: _Optional[str] = ..., status: _Optional[str] = ..., message: _Optional[str] = ..., version: _Optional[int] = ..., epoch: _Optional[int] = ..., epochs: _Optional[int] = ..., records_done: _Optional[int] = ..., records_total: _Optional[int] = ..., records_retrained: _Optional[int] = ..., loss: _Optional[float] = ..., records_per_second: _Optional[float] = ..., pods: _Optional[_Iterable[_Union[PodStatus, _Mapping]]] = ..., ledger: _Optional[_Iterable[_Union[EpochLedger, _Mapping]]] = ..., evaluations: _Optional[_Iterable[_Union[EvaluationResult, _Mapping]]] = ...) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
