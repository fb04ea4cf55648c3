"""When gradients that wait for each other are enough: the decisions of synchronous training.

PS 0 leads: its `Barrier` lets a version come about once as many pushes wait as were asked for, or as there
are workers left to send. The other servers follow: a `Line` holds pushes until those that PS 0 merged into
one version are here, version after version. Nothing waits for a worker that is gone, nor past a deadline.
Time is an argument.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field


class Senders:
    """The workers that may still send a gradient."""

    def __init__(self) -> None:
        self._generation = -1
        self.workers: frozenset[str] = frozenset()
        self.lost: frozenset[str] = frozenset()

    def replace(self, generation: int, workers: Collection[str]) -> bool:
        """What the master says; False for a word older than the last."""
        if generation < self._generation:
            return False
        now = frozenset(workers)
        self.lost = (self.lost | self.workers) - now
        self._generation, self.workers = generation, now
        return True

    def new_master(self) -> None:
        """Whoever speaks next counts its words from the beginning."""
        self._generation = -1

    def seen(self, worker: str) -> None:
        """A worker pushed. Until the master has spoken, those who push are all that are known."""
        if self._generation < 0:
            self.workers |= {worker}
        self.lost -= {worker}


@dataclass
class Barrier:
    """PS 0: pushes wait here for each other."""

    wanted: int
    wait_seconds: float
    waiting: list[str] = field(default_factory=list)
    deadline: float = math.inf

    def arrive(self, worker: str, now: float) -> None:
        """A push of this worker waits from now on."""
        if not self.waiting:
            self.deadline = now + self.wait_seconds
        self.waiting.append(worker)

    def enough(self, senders: Senders, now: float) -> bool:
        """Whether to apply what waits: no more can come, no more are needed, or time is up."""
        can_come = len(self.waiting) + len(senders.workers.difference(self.waiting))
        return bool(self.waiting) and (
            len(self.waiting) >= min(self.wanted, can_come) or now >= self.deadline
        )

    def open(self) -> list[str]:
        """Let them all through."""
        workers, self.waiting, self.deadline = self.waiting, [], math.inf
        return workers


@dataclass
class _Group:
    deadline: float
    missing: set[str]


@dataclass
class Line:
    """The other servers: pushes of each version PS 0 decided, in the order of versions."""

    wait_seconds: float
    groups: dict[int, _Group] = field(default_factory=dict)
    _lost_before: frozenset[str] = frozenset()

    @property
    def deadline(self) -> float:
        """When the first group stops waiting."""
        return self.groups[min(self.groups)].deadline if self.groups else math.inf

    def arrive(self, version: int, merged: Collection[str], worker: str, now: float) -> None:
        """A push of this worker, which PS 0 merged with those of others into this version."""
        group = self.groups.setdefault(version, _Group(now + self.wait_seconds, set(merged)))
        group.missing.discard(worker)

    def next(self, version: int, senders: Senders, now: float) -> int | None:
        """The version to apply next on top of `version`, if its pushes are here or will not come."""
        if not self.groups:
            return None
        first = min(self.groups)
        group = self.groups[first]
        here = not group.missing - senders.lost
        # Of a version that was skipped nothing came: its only senders may have been lost on their way to us.
        in_order = first == version + 1 or bool(senders.lost - self._lost_before)
        if not (here and in_order) and now < group.deadline:
            return None
        del self.groups[first]
        self._lost_before = senders.lost
        return first
