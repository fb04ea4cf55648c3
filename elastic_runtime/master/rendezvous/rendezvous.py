"""The rendezvous: an event in, a list of effects out; no clock, no I/O.

Workers that train together are a *world*: a number, and members in the order of their ranks. A world never
changes; who wants another one leaves it and asks for the next. Members of the present world keep their
order, newcomers come behind them, so rank 0 is always the oldest that holds the model.

A loss shows itself to the survivors, who leave and ask. Newcomers ask too, and are let in together: they
are waited for, `gather` seconds from the first or until all that are wanted are there, then the present
world is called in, and its members leave it at the end of one and the same step. The next world is formed
when every member that can be reached has asked. One that does not ask for `patience` seconds after the first
did is left out; when it comes, it comes as a newcomer. A member without progress breaks its world up, since
the others may be waiting for it; if then all keep silent for as long, newcomers go on without them.

Nothing of this needs a journal. Members tell a new master which world they are in, or have left; it gives
them some time to come back before it forms a world without them, and `patience` seconds while there is nobody
who holds the model: newcomers alone would begin it anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

_NEWCOMER = 1 << 40
"""Ranks of those who were in no world sort behind all others."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A worker is there; after a restart of the master it may be in a world (0: in none)."""

    name: str
    world: int = 0
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Away:
    """A worker cannot be reached: it is gone, or its world goes on without the master."""

    name: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A worker is there no more."""

    name: str


@dataclass(frozen=True, slots=True)
class Silent:
    """A worker made no progress for so long that its work was taken from it."""

    name: str
    now: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A worker has left its world, or was in none, and waits for the next.

    It holds the model's state of `era` (0: of none) at `version`, and `checksum` is that of its weights.
    `left` is the newest world that it was to be in.
    """

    name: str
    era: int
    version: int
    checksum: int
    now: float
    left: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    now: float


Event = Arrived | Away | Gone | Silent | Asked | Tick


@dataclass(frozen=True, slots=True)
class CallIn:
    """The members of the present world shall leave it after a step: newcomers wait."""

    members: tuple[str, ...]
    newcomers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Formed:
    """A new world stands: its members in the order of their ranks, and the era of the state of rank 0."""

    world: int
    members: tuple[str, ...]
    era: int
    version: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Void:
    """A member of this world is lost: if it is still coming together, it never will."""

    world: int


@dataclass(frozen=True, slots=True)
class Diverged:
    """Two workers hold different weights of one version: the training is not right any more."""

    one: str
    other: str
    version: int


Effect = CallIn | Formed | Void | Diverged


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a worker that is there stands: in which world, with which rank."""

    world: int
    rank: int


class Rendezvous:
    """Decides on the worlds of one job."""

    def __init__(
        self, *, wanted: int, smallest: int, gather: float, patience: float, by_hand: bool = False
    ) -> None:
        """`by_hand`: there may be more workers than are `wanted`, nobody knows how many."""
        self.wanted, self._smallest = wanted, smallest  # `wanted` changes when the job is scaled
        self._by_hand = by_hand
        self._gather, self._patience = gather, patience
        self._reunion = 0.0  # while positive: members may be on their way back to a new master
        self._order = itertools.count(_NEWCOMER)
        self._there: dict[str, _Place] = {}
        self._asking: dict[str, Asked] = {}
        self._away: set[str] = set()
        self._silent: dict[str, float] = {}  # members of the present world, and since when
        self._called: set[str] = set()  # members of the present world that were told to leave it
        self.world = 0

    @property
    def members(self) -> list[str]:
        """Of the present world, those who are still there, in the order of their ranks."""
        return sorted(
            (name for name, place in self._there.items() if place.world == self.world > 0),
            key=lambda name: self._there[name].rank,
        )

    def resume(self, reunion: float, world: int) -> None:
        """After a restart of the master: members are waited for, so long from when the first one asks.

        Longer as long as none of them is there, unless nobody else can be.
        """
        self._reunion, self.world = reunion, world

    def handle(self, event: Event) -> list[Effect]:
        """What is to be done about this event."""
        effects: Sequence[Effect] = ()
        match event:
            case Arrived(name, world, rank):
                self._arrive(name, world, rank)
            case Away(name):
                self._away.add(name)
                self._asking.pop(name, None)
            case Gone(name):
                effects = self._lose(name)
                self._forget(name)
            case Silent(name, since):
                effects = self._break_up(name, since)
            case Asked():
                effects = self._ask(event)
            case Tick():
                pass
        now = event.now if isinstance(event, Silent | Asked | Tick) else None
        return [*effects, *self._consider(now)]

    def next_deadline(self) -> float | None:
        """When to send the next `Tick`."""
        waits_for_members = self._only_newcomers and self.members and not self._to_call
        if len(self._asking) < max(self._smallest, 1):
            return None
        return self._given_up if waits_for_members else self._due

    def _arrive(self, name: str, world: int, rank: int) -> None:
        self.world = max(self.world, world)
        self._away.discard(name)
        self._silent.pop(name, None)
        self._called.discard(name)  # the call may have been lost with its connection
        if name not in self._there or world:
            self._there[name] = _Place(world, rank if world else next(self._order))

    def _lose(self, name: str) -> Sequence[Effect]:
        place = self._there.get(name)
        return [Void(place.world)] if place and place.world == self.world > 0 else []

    def _forget(self, name: str) -> None:
        self._there.pop(name, None)
        self._asking.pop(name, None)
        self._away.discard(name)
        self._silent.pop(name, None)
        self._called.discard(name)

    def _break_up(self, name: str, since: float) -> Sequence[Effect]:
        if name in self._asking or name not in self.members:
            return []  # it waits for others itself
        known = bool(self._silent)
        self._silent[name] = since
        return [] if known else [Void(self.world)]

    def _ask(self, asked: Asked) -> Sequence[Effect]:
        if asked.name not in self._there:
            self._arrive(asked.name, 0, 0)
        self._away.discard(asked.name)
        self._silent.pop(asked.name, None)
        self.world = max(self.world, asked.left)  # after a restart of the master: worlds are numbered on
        before = self._asking.get(asked.name)
        self._asking[asked.name] = replace(asked, now=before.now) if before else asked
        return [
            Diverged(other.name, asked.name, asked.version)
            for other in self._asking.values()
            if asked.era and (other.era, other.version, other.left) == (asked.era, asked.version, asked.left)
            if other.checksum != asked.checksum
        ][:1]

    @property
    def _only_newcomers(self) -> bool:
        """Whether nobody has left the present world."""
        return not any(name in self._asking for name in self.members)

    @property
    def _is_held(self) -> bool:
        """Whether somebody is there who holds the model: in a world, or between two."""
        return bool(self.members) or any(asked.era for asked in self._asking.values())

    @property
    def _due(self) -> float:
        """When waiting ends: for more newcomers, or for the members that have not asked yet."""
        if self._reunion:
            wait = self._reunion if self._is_held else max(self._reunion, self._patience)
            return min(asked.now for asked in self._asking.values()) + wait
        members = set(self.members)
        left = [asked.now for name, asked in self._asking.items() if name in members]
        if left:
            return min(left) + self._patience
        return min(asked.now for asked in self._asking.values()) + self._gather

    @property
    def _given_up(self) -> float | None:
        """When newcomers go on without the members of the present world, if none of these makes progress."""
        members = self.members
        if not members or not self._silent.keys() >= set(members):
            return None
        return max(self._silent[name] for name in members) + self._patience

    def _consider(self, now: float | None) -> list[Effect]:
        if not self._asking:
            return []
        is_all = not self._by_hand and len(self._there) >= self.wanted
        if self._reunion and not is_all and (now is None or now < self._due):
            return []
        self._reunion = 0.0
        overdue = now is not None and now >= self._due
        if not self._only_newcomers:
            awaited = [name for name in self.members if name not in self._asking]
            unreachable = all(name in self._away for name in awaited)
            return self._form(tuple(awaited)) if overdue or unreachable else []
        if not overdue and not self._called and len(self.members) + len(self._asking) < self.wanted:
            return []
        if now is not None and self._given_up is not None and now >= self._given_up:
            return self._form(tuple(self.members))
        return self._call_in() if self.members else self._form(())

    @property
    def _to_call(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if name not in self._away | self._called)

    def _call_in(self) -> list[Effect]:
        calls = self._to_call
        self._called.update(calls)
        return [CallIn(calls, tuple(self._asking))] if calls else []

    def _form(self, left_out: tuple[str, ...]) -> list[Effect]:
        if len(self._asking) < self._smallest:
            return []
        left_out = tuple(name for name in left_out if name not in self._away or name in self._silent)
        newest_era, newest = max((asked.era, asked.version) for asked in self._asking.values())
        ranked = sorted(
            self._asking.values(),
            key=lambda asked: (
                asked.era != newest_era,
                asked.version < newest - 1,  # members are within a step of each other: this one was left out
                self._there[asked.name].rank,
            ),
        )
        for name in self.members:
            self._there[name] = _Place(0, next(self._order))
        self.world += 1
        for rank, asked in enumerate(ranked):
            self._there[asked.name] = _Place(self.world, rank)
        self._asking.clear()
        self._called.clear()
        self._silent.clear()
        first = ranked[0]
        return [Formed(self.world, tuple(a.name for a in ranked), first.era, first.version, left_out)]
