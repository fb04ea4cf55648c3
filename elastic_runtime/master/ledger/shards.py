"""Which records each shard number stands for, and the order in which an epoch hands the shards out.

Shards are numbered over all sources, each source cut from its start, its last shard short. No object is
kept per shard, so a million of them cost nothing here.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from elastic_runtime.master.ledger.events import Shard, Source
from elastic_runtime.master.ledger.packing import Mask, runs


class Shards:
    """All shards of an epoch."""

    def __init__(self, sources: Sequence[Source], records_per_shard: int) -> None:
        if records_per_shard < 1:
            raise ValueError(f"records_per_shard must be at least 1, got {records_per_shard}")
        self.sources = tuple(sources)
        self.records_per_shard = records_per_shard
        self.records = sum(source.records for source in self.sources)
        counts = [-(-source.records // records_per_shard) for source in self.sources]
        self._first = [0, *np.cumsum(counts, dtype=np.int64).tolist()]
        self.count: int = self._first[-1]

    @property
    def digest(self) -> str:
        """Equal for equal data cut in the same way; only then a ledger's state fits."""
        rows = [self.records_per_shard, [[s.name, s.records, s.start] for s in self.sources]]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]

    def __getitem__(self, number: int) -> Shard:
        place = bisect_right(self._first, number) - 1
        source = self.sources[place]
        begin = (number - self._first[place]) * self.records_per_shard
        end = min(begin + self.records_per_shard, source.records)
        return Shard(source.name, source.start + begin, source.start + end)

    def intervals(self, mask: Mask) -> dict[str, list[tuple[int, int]]]:
        """The records of the shards in `mask`, as merged intervals of every source."""
        found: dict[str, list[tuple[int, int]]] = {source.name: [] for source in self.sources}
        for place, source in enumerate(self.sources):
            cut = runs(mask[self._first[place] : self._first[place + 1]]) * self.records_per_shard
            ends = np.minimum(cut[:, 1], source.records) + source.start
            found[source.name] += zip((cut[:, 0] + source.start).tolist(), ends.tolist(), strict=True)
        return found

    def records_in(self, mask: Mask) -> int:
        """The number of records of the shards in `mask`."""
        return sum(end - start for spans in self.intervals(mask).values() for start, end in spans)

    def order(self, epoch: int, seed: int | None) -> Sequence[int]:
        """Shard numbers as they are handed out: in order, or shuffled over all sources by seed and epoch."""
        if seed is None:
            return range(self.count)
        shuffled = np.random.default_rng([seed, epoch]).permutation(np.arange(self.count, dtype=np.uint32))
        return array("I", shuffled.tobytes())
