"""When gradients that wait for each other are enough: the decisions of synchronous training.

PS 0 leads: its `Barrier` lets a version come about once as many pushes wait as were asked for, or as there
are workers left to send. The other servers follow: a `Line` holds pushes until those that PS 0 merged into
one version are here, version after version; and where it is only heard that PS 0 has made a version, until
its pushes come or those who would bring them are lost. Nothing waits for a worker that is gone, nor past a
deadline. Time is an argument.
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

    def may_bring(self, missing: Collection[str] | None) -> bool:
        """Whether a push of one of these (None: of anybody) may still come."""
        if missing is None:
            return self._generation < 0 or bool(self.workers)
        return not self.lost.issuperset(missing)


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
    """The pushes of one version."""

    deadline: float
    missing: set[str] | None  # None: it is not known whose they are
    is_here: bool = False
    """Whether one of them is; else the version is only heard of."""


@dataclass
class Line:
    """The other servers: pushes of each version PS 0 decided, in the order of versions."""

    wait_seconds: float
    groups: dict[int, _Group] = field(default_factory=dict)
    _lost_before: frozenset[str] = frozenset()

    @property
    def deadline(self) -> float:
        """When the first group stops waiting."""
        return min((self.groups[version].deadline for version in self._foremost()), default=math.inf)

    def arrive(self, version: int, merged: Collection[str], worker: str, now: float) -> None:
        """A push of this worker, which PS 0 merged with those of others into this version."""
        group = self._hear(version, merged, now)
        group.is_here = True
        group.missing = (group.missing or set()) - {worker}

    def expect(self, version: int, merged: Collection[str] | None, now: float) -> None:
        """PS 0 has made this version, of these workers' pushes if that is known."""
        self._hear(version, merged, now)

    def _hear(self, version: int, merged: Collection[str] | None, now: float) -> _Group:
        group = self.groups.setdefault(version, _Group(now + self.wait_seconds, None))
        if group.missing is None and merged is not None:
            group.missing = set(merged)
        return group

    def next(self, version: int, senders: Senders, now: float) -> int | None:
        """The version to go to next from `version`, if its pushes are here or will not come."""
        for first in self._foremost():
            group = self.groups[first]
            # Of one that was skipped nothing came: its only senders may have been lost on their way to us.
            in_order = first == version + 1 or bool(senders.lost - self._lost_before)
            may_go = in_order or not group.is_here
            if now >= group.deadline or (may_go and not senders.may_bring(group.missing)):
                self._lost_before = senders.lost
                return first
        return None

    def reached(self, version: int) -> None:
        """This version is reached: nothing waits for it, nor for those before it."""
        self.groups = {later: group for later, group in self.groups.items() if later > version}

    def _foremost(self) -> list[int]:
        """The first version with a push here, and those before it that are only heard of, in order."""
        found = []
        for version in sorted(self.groups):
            found.append(version)
            if self.groups[version].is_here:
                break
        return found
