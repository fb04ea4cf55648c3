"""What the worker's main thread receives: pieces of work, in order, and the word that there will be no
more.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastic_runtime.rpc import master_pb2


@dataclass(frozen=True, slots=True)
class Work:
    """A granted lease with its records at hand; `number` is its place in the worker's own order."""

    number: int
    reply: master_pb2.LeaseReply
    records: int

    @property
    def key(self) -> master_pb2.LeaseKey:
        """Names the lease in every report about it."""
        return self.reply.key

    @property
    def kind(self) -> int:
        """A `LeaseKind`."""
        return self.reply.key.kind

    @property
    def what(self) -> str:
        """The work in words, for logs and errors."""
        shard = self.reply.shard
        return f"records {shard.start}-{shard.end} of {shard.source}" if shard.source else "the model"


@dataclass(frozen=True, slots=True)
class NoMoreWork:
    """The job needs this worker no longer."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The supply of work, or what is said of it, ended by an error: there is nothing to wait for."""

    problem: Exception


@dataclass(frozen=True, slots=True)
class Wake:
    """An order came in while the main thread waited for work."""
