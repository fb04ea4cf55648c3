"""Pushes: what a worker brings, what became of it, and how several are added up before they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from elastic_runtime.ps import kernels
from elastic_runtime.ps.rows import RowGradients
from elastic_runtime.rpc.ps_pb2 import Verdict


@dataclass(frozen=True, slots=True)
class PushId:
    """Which push this is; the same when it is sent again."""

    worker: str
    incarnation: str
    seq: int


@dataclass(frozen=True, slots=True)
class Merge:
    """Whose pushes became one version."""

    version: int
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Push:
    """Gradients and changes of state, in chunks as they came off the wire."""

    id: PushId
    era: int
    version: int
    learning_rate: float
    gradient: Sequence[np.ndarray]
    delta: Sequence[np.ndarray] = ()
    merge: Merge | None = None
    rows: Sequence[RowGradients] = ()
    finite: bool = True
    """Whether the chunks hold no NaN or infinity; they are looked through while they come in."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a push."""

    verdict: Verdict
    reason: str = ""
    merge: Merge | None = None


@dataclass
class Sum:
    """Pushes that will be applied together; the chunks of a first one are kept as they came."""

    ids: list[PushId] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    gradient: Sequence[np.ndarray] = ()
    delta: Sequence[np.ndarray] = ()
    rows: list[RowGradients] = field(default_factory=list)

    @classmethod
    def of(cls, push: Push) -> Sum:
        """Of one push."""
        made = cls()
        made.add(push)
        return made

    def add(self, push: Push) -> None:
        """Add one more."""
        if not self.ids:
            self.gradient, self.delta = push.gradient, push.delta
        else:
            own = len(self.ids) > 1
            sums = _added(self.gradient, push.gradient, own), _added(self.delta, push.delta, own)
            self.gradient, self.delta = sums
        self.rows.extend(push.rows)
        self.ids.append(push.id)
        self.rates.append(push.learning_rate)


def _added(total: Sequence[np.ndarray], more: Sequence[np.ndarray], own: bool) -> list[np.ndarray]:
    sums = list(total) if own else [chunk.copy() for chunk in total]
    for mine, theirs in zip(sums, more, strict=True):
        kernels.add(mine, theirs, np.float32(1))
    return sums
