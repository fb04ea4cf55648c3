"""What every home of a model offers the master, and what an era of it is made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from elastic_runtime.rpc import master_pb2


@dataclass(frozen=True, slots=True)
class Origin:
    """What an era's model is made of: nothing yet (`fresh`), a `checkpoint`, or a worker's `copy`."""

    how: str
    version: int = 0
    checkpoint: str = ""
    ledger: Mapping[str, Any] | None = None
    holders: Sequence[str] = field(default_factory=tuple)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Origin:
        """The inverse of `dataclasses.asdict`, also after a trip through JSON."""
        return cls(**{**record, "holders": tuple(record["holders"])})

    def held_by(self, holders: Sequence[str]) -> Origin:
        """The same, with the processes that hold it."""
        return replace(self, holders=tuple(holders))


BeginEra = Callable[[int, Origin], Awaitable[None]]
FindCheckpoint = Callable[[], Origin | None]


class Home(Protocol):
    """What the rest of the master asks of the model's holders."""

    def joined(self, member: master_pb2.Member) -> None:
        """A parameter server or a worker joined."""

    def lost(self, member: str) -> None:
        """A holder's pod ended."""

    def away(self, member: str) -> None:
        """A holder's connection broke; it may come back."""

    def silent(self, worker: str) -> None:
        """A worker made no progress for so long that its work was taken from it."""

    def topology(self) -> master_pb2.Topology:
        """What a joining worker is told."""

    async def snapshot(self) -> int:
        """Keep a copy of the model as it is now; returns its version."""

    async def drop_snapshot(self, version: int) -> None:
        """The copy is needed no longer."""

    async def save(self, version: int, directory: Path) -> int:
        """Write the snapshot of `version` there, in as many parts as there are holders."""

    async def set_senders(self, workers: Sequence[str]) -> None:
        """These workers hold training leases: the parameter servers wait for no others."""

    async def close(self) -> None:
        """Let go of the holders."""
