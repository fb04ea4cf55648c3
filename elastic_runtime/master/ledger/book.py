"""The book of one epoch: each shard is to do, out (with a worker), or done.

Shards that came back are handed out first, by number; then the rest in the epoch's order. So all there is
to remember, beside what is done and what is out, is how far the order has been walked.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from elastic_runtime.master.ledger.packing import Mask, pack_mask, unpack_mask

TODO, OUT, DONE = 0, 1, 2


class Book:
    """One epoch's shards. The `order` is drawn when needed and dropped once it is walked through."""

    def __init__(self, count: int, order: Callable[[], Sequence[int]]) -> None:
        self._count = count
        self._draw = order
        self._order: Sequence[int] | None = None
        self._cursor = 0
        self._returned: list[int] = []
        self._places = bytearray(count)
        self.undone = count

    @property
    def todo(self) -> int:
        """How many shards can be handed out now."""
        return self._count - self._cursor + len(self._returned)

    def take(self, *, rather_not: AbstractSet[int] = frozenset()) -> int:
        """Hand out the next shard; one of `rather_not` only if no other is left."""
        shard = self._next(rather_not)
        self._places[shard] = OUT
        return shard

    def _next(self, rather_not: AbstractSet[int]) -> int:
        put_off = []
        while self._returned and self._returned[0] in rather_not:
            put_off.append(heapq.heappop(self._returned))
        if self._returned:
            shard = heapq.heappop(self._returned)
        elif self._cursor < self._count:
            shard = self._next_in_order()
        else:
            shard = put_off.pop(0)
        for other in put_off:
            heapq.heappush(self._returned, other)
        return shard

    def _next_in_order(self) -> int:
        if self._order is None:
            self._order = self._draw()
        shard = self._order[self._cursor]
        self._cursor += 1
        if self._cursor == self._count:
            self._order = None
        return shard

    def give_back(self, shard: int) -> None:
        """A shard that was out, or done, is to do again."""
        self.undone += self._places[shard] == DONE
        self._places[shard] = TODO
        heapq.heappush(self._returned, shard)

    def finish(self, shard: int) -> None:
        """A shard that was out is done."""
        self._places[shard] = DONE
        self.undone -= 1

    def done(self, *, without: Iterable[int] = ()) -> Mask:
        """The shards that are done, leaving some out."""
        mask: Mask = np.frombuffer(self._places, np.uint8) == DONE
        mask[list(without)] = False
        return mask

    def state(self, *, without: Iterable[int] = ()) -> dict[str, Any]:
        """What `load` needs, beside the shards that are out."""
        return {"done": pack_mask(self.done(without=without)), "cursor": self._cursor}

    def load(self, state: dict[str, Any], out: Iterable[int] = ()) -> None:
        """Continue from `state`, with these shards in the hands of workers."""
        places = unpack_mask(state["done"], self._count).astype(np.uint8) * DONE
        places[list(out)] = OUT
        self._cursor = state["cursor"]
        walked = np.ones(self._count, bool)
        if self._cursor < self._count:
            self._order = self._draw()
            walked[np.array(self._order[self._cursor :], np.int64)] = False
        self._returned = np.flatnonzero(walked & (places == TODO)).tolist()
        self._places = bytearray(places.tobytes())
        self.undone = self._count - int(np.count_nonzero(places == DONE))

    def fill(self) -> None:
        """Every shard is done."""
        self.load({"done": [0, self._count], "cursor": self._count})
