from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    ACCEPTED: _ClassVar[Verdict]
    STALE: _ClassVar[Verdict]
    WRONG_ERA: _ClassVar[Verdict]
    NOT_INITIALISED: _ClassVar[Verdict]
    MISFIT: _ClassVar[Verdict]
    NONFINITE: _ClassVar[Verdict]
    TIMED_OUT: _ClassVar[Verdict]
    NO_SNAPSHOT: _ClassVar[Verdict]
    ENDING: _ClassVar[Verdict]
    FAILED: _ClassVar[Verdict]
VERDICT_UNSPECIFIED: Verdict
ACCEPTED: Verdict
STALE: Verdict
WRONG_ERA: Verdict
NOT_INITIALISED: Verdict
MISFIT: Verdict
NONFINITE: Verdict
TIMED_OUT: Verdict
NO_SNAPSHOT: Verdict
ENDING: Verdict
FAILED: Verdict

class TableSpec(_message.Message):
    __slots__ = ("name", "dimension", "initializer", "scale")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    INITIALIZER_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dimension: int
    initializer: str
    scale: float
    def __init__(self, name: _Optional[str] = ..., dimension: _Optional[int] = ..., initializer: _Optional[str] = ..., scale: _Optional[float] = ...) -> None: ...

class InitializeRequest(_message.Message):
    __slots__ = ("layout", "optimizer", "index", "parts", "version", "era", "seed", "tables", "join")
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    layout: str
    optimizer: str
    index: int
    parts: int
    version: int
    era: int
    seed: int
    tables: _containers.RepeatedCompositeFieldContainer[TableSpec]
    join: bool
    def __init__(self, layout: _Optional[str] = ..., optimizer: _Optional[str] = ..., index: _Optional[int] = ..., parts: _Optional[int] = ..., version: _Optional[int] = ..., era: _Optional[int] = ..., seed: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableSpec, _Mapping]]] = ..., join: _Optional[bool] = ...) -> None: ...

class InitializeReply(_message.Message):
    __slots__ = ("verdict", "reason", "already", "version")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ALREADY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    reason: str
    already: bool
    version: int
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ..., already: _Optional[bool] = ..., version: _Optional[int] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("table", "count")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    table: str
    count: int
    def __init__(self, table: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Merge(_message.Message):
    __slots__ = ("version", "workers")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., workers: _Optional[_Iterable[str]] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "seq", "era", "version", "learning_rate", "merge", "rows")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: str
    seq: int
    era: int
    version: int
    learning_rate: float
    merge: Merge
    rows: _containers.RepeatedCompositeFieldContainer[Rows]
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[str] = ..., seq: _Optional[int] = ..., era: _Optional[int] = ..., version: _Optional[int] = ..., learning_rate: _Optional[float] = ..., merge: _Optional[_Union[Merge, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[Rows, _Mapping]]] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ("verdict", "reason", "merge")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    reason: str
    merge: Merge
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ..., merge: _Optional[_Union[Merge, _Mapping]] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("era", "have_version", "min_version", "snapshot", "wait_seconds", "merge")
    ERA_FIELD_NUMBER: _ClassVar[int]
    HAVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    era: int
    have_version: int
    min_version: int
    snapshot: int
    wait_seconds: float
    merge: Merge
    def __init__(self, era: _Optional[int] = ..., have_version: _Optional[int] = ..., min_version: _Optional[int] = ..., snapshot: _Optional[int] = ..., wait_seconds: _Optional[float] = ..., merge: _Optional[_Union[Merge, _Mapping]] = ...) -> None: ...

class PullReply(_message.Message):
    __slots__ = ("verdict", "reason", "version", "unchanged", "merge")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    reason: str
    version: int
    unchanged: bool
    merge: Merge
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ..., version: _Optional[int] = ..., unchanged: _Optional[bool] = ..., merge: _Optional[_Union[Merge, _Mapping]] = ...) -> None: ...

class PullRowsRequest(_message.Message):
    __slots__ = ("era", "table", "count", "snapshot")
    ERA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    era: int
    table: str
    count: int
    snapshot: int
    def __init__(self, era: _Optional[int] = ..., table: _Optional[str] = ..., count: _Optional[int] = ..., snapshot: _Optional[int] = ...) -> None: ...

class PullRowsReply(_message.Message):
    __slots__ = ("verdict", "reason")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    reason: str
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class SaveRequest(_message.Message):
    __slots__ = ("snapshot", "directory", "era")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    snapshot: int
    directory: str
    era: int
    def __init__(self, snapshot: _Optional[int] = ..., directory: _Optional[str] = ..., era: _Optional[int] = ...) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ("directory", "era")
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    directory: str
    era: int
    def __init__(self, directory: _Optional[str] = ..., era: _Optional[int] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ("version", "era", "merge")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    version: int
    era: int
    merge: Merge
    def __init__(self, version: _Optional[int] = ..., era: _Optional[int] = ..., merge: _Optional[_Union[Merge, _Mapping]] = ...) -> None: ...

class DropSnapshotRequest(_message.Message):
    __slots__ = ("version", "era")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    version: int
    era: int
    def __init__(self, version: _Optional[int] = ..., era: _Optional[int] = ...) -> None: ...

class SetSendersRequest(_message.Message):
    __slots__ = ("generation", "workers")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[int] = ..., workers: _Optional[_Iterable[str]] = ...) -> None: ...

class ControlReply(_message.Message):
    __slots__ = ("verdict", "reason", "version", "era", "merge")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    reason: str
    version: int
    era: int
    merge: Merge
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ..., version: _Optional[int] = ..., era: _Optional[int] = ..., merge: _Optional[_Union[Merge, _Mapping]] = ...) -> None: ...

class PSStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PSStatusReply(_message.Message):
    __slots__ = ("index", "parts", "initialised", "version", "era", "waiting", "applied", "stale", "nonfinite", "snapshots")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    INITIALISED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    index: int
    parts: int
    initialised: bool
    version: int
    era: int
    waiting: int
    applied: int
    stale: int
    nonfinite: int
    snapshots: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[int] = ..., parts: _Optional[int] = ..., initialised: _Optional[bool] = ..., version: _Optional[int] = ..., era: _Optional[int] = ..., waiting: _Optional[int] = ..., applied: _Optional[int] = ..., stale: _Optional[int] = ..., nonfinite: _Optional[int] = ..., snapshots: _Optional[_Iterable[int]] = ...) -> None: ...
