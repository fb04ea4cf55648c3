"""At which version of the model each shard was finished, since the last checkpoint, or of the last shards.

With it the ledger can be told as it was at any version not forgotten: for the checkpoint of that version,
or to go back when the model went back.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from elastic_runtime.master.ledger.packing import pack_numbers, unpack_numbers


class History:
    """Three columns: version, epoch, shard (16 bytes a shard), of the versions later than `since`."""

    def __init__(self, since: int = 0) -> None:
        self.since = since
        self._versions, self._epochs, self._shards = array("q"), array("i"), array("i")

    def add(self, version: int, epoch: int, shard: int) -> None:
        """The shard was finished at this version."""
        self._versions.append(version)
        self._epochs.append(epoch)
        self._shards.append(shard)

    def after(self, version: int) -> dict[int, list[int]]:
        """By epoch, the shards finished at a later version."""
        if version < self.since:
            raise ValueError(f"the ledger's history begins at version {self.since}, asked for {version}")
        later = np.flatnonzero(np.array(self._versions) > version)
        epochs, shards = np.array(self._epochs)[later], np.array(self._shards)[later]
        return {int(epoch): shards[epochs == epoch].tolist() for epoch in np.unique(epochs)}

    def forget(self, *, before: int) -> None:
        """Drop what was finished at this version or earlier."""
        self.since = max(self.since, before)
        self._keep(np.array(self._versions) > before)

    def forget_all_but(self, newest: int) -> None:
        """Drop the oldest versions, now and then, so that at most twice this many shards are kept."""
        count = len(self._versions)
        if count > 2 * newest:
            oldest_first = np.sort(np.array(self._versions))
            self.forget(before=int(oldest_first[count - newest - 1]))

    def undo(self, *, after: int) -> None:
        """Drop what was finished at a later version."""
        self._keep(np.array(self._versions) <= after)

    def state(self) -> dict[str, Any]:
        """The columns, packed."""
        columns = [pack_numbers(np.array(column, np.int64)) for column in self._columns()]
        return {"since": self.since, "columns": columns}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> History:
        """The inverse of `state`."""
        history = cls(state["since"])
        history._fill([unpack_numbers(column) for column in state["columns"]])
        return history

    def _columns(self) -> tuple[array[int], array[int], array[int]]:
        return self._versions, self._epochs, self._shards

    def _keep(self, chosen: npt.NDArray[np.bool_]) -> None:
        self._fill([np.array(column, np.int64)[chosen] for column in self._columns()])

    def _fill(self, columns: Sequence[npt.NDArray[np.int64]]) -> None:
        versions, epochs, shards = columns
        self._versions = array("q", versions.tobytes())
        self._epochs = array("i", epochs.astype(np.int32).tobytes())
        self._shards = array("i", shards.astype(np.int32).tobytes())
