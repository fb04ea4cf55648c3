"""What an embedding table is, and rows of it on their way: the facts that client, wire and files share.

No kernels here: master and workers talk about tables without loading numba.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from elastic_runtime.errors import InputError, nearest

INITIALIZERS = ("zeros", "ones", "constant", "uniform", "normal")

Rows = tuple[np.ndarray, np.ndarray]
"""Ids (int64) and a row of float32 for each; ids may repeat."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table as the model describes it; `scale` is half-width, standard deviation, or the constant."""

    name: str
    dimension: int
    initializer: str = "uniform"
    scale: float = 0.05

    def __post_init__(self) -> None:
        if self.initializer not in INITIALIZERS:
            remedy = nearest(self.initializer, INITIALIZERS)
            raise InputError(
                f"no initializer {self.initializer!r}", where=f"table {self.name}", remedy=remedy
            )
        if self.dimension < 1:
            raise InputError(f"dimension {self.dimension} must be at least 1", where=f"table {self.name}")


@dataclass(frozen=True, slots=True)
class TableState:
    """Rows as they are saved: `values` and each slot hold one row for each id."""

    spec: TableSpec
    ids: np.ndarray
    values: np.ndarray
    slots: Mapping[str, np.ndarray] = field(default_factory=dict)

    def of(self, index: int, parts: int) -> TableState:
        """The rows that lie on server `index` of `parts`."""
        mine = self.ids % parts == index
        slots = {name: slot[mine] for name, slot in self.slots.items()}
        return TableState(self.spec, self.ids[mine], self.values[mine], slots)

    @classmethod
    def joined(cls, states: Sequence[TableState]) -> TableState:
        """The rows of several servers together."""
        slots = {name: np.concatenate([each.slots[name] for each in states]) for name in states[0].slots}
        ids, values = (np.concatenate([getattr(each, name) for each in states]) for name in ("ids", "values"))
        return cls(states[0].spec, ids, values, slots)


@dataclass(frozen=True, slots=True)
class RowGradients:
    """Gradients of rows of one table; ids may repeat."""

    table: str
    ids: np.ndarray
    values: np.ndarray


def joined(gradients: Iterable[RowGradients]) -> dict[str, Rows]:
    """Ids and gradients of each table, in arrays of their own."""
    tables: dict[str, list[RowGradients]] = {}
    for one in gradients:
        tables.setdefault(one.table, []).append(one)
    return {
        name: (np.concatenate([one.ids for one in each]), np.concatenate([one.values for one in each]))
        for name, each in tables.items()
    }
