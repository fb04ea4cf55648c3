"""The home of a model that does not change: evaluation and prediction read a finished checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elastic_runtime.errors import ElasticError
from elastic_runtime.rpc import master_pb2


class StaticHome:
    """Every worker reads the checkpoint itself."""

    def __init__(self, checkpoint: str) -> None:
        self._topology = master_pb2.Topology(era=1, ready=True, restore_from=checkpoint)

    def joined(self, member: master_pb2.Member) -> None:
        """Nothing is held."""

    def lost(self, member: str) -> None:
        """Nothing was held."""

    def away(self, member: str) -> None:
        """It may come back."""

    def silent(self, worker: str) -> None:
        """Nobody waits for it."""

    def topology(self) -> master_pb2.Topology:
        """Always ready."""
        return self._topology

    async def snapshot(self) -> int:
        """The model never changes."""
        return 0

    async def drop_snapshot(self, version: int) -> None:
        """The model never changes."""

    async def save(self, version: int, directory: Path) -> int:  # noqa: ARG002 - a home of its own kind
        """There is nothing new to save."""
        raise ElasticError("a job that does not train has no checkpoint to write")

    async def set_senders(self, workers: Sequence[str]) -> None:
        """Nobody sends gradients."""

    async def close(self) -> None:
        """Nothing is held."""
