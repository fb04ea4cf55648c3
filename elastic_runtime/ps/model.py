"""One server's part of the model: the numbers themselves, and the optimizer that changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from elastic_runtime.ps import kernels, optimizers
from elastic_runtime.ps.copies import pieces
from elastic_runtime.ps.optimizers import Update
from elastic_runtime.ps.partfile import PartState
from elastic_runtime.ps.rows import RowGradients, Rows, TableSpec, joined
from elastic_runtime.ps.tables import Table
from elastic_runtime.rpc.layout import Layout

Each = Callable[..., Iterable[None]]
"""`map`, or one that runs on many threads."""


@dataclass
class Model:
    """Buffers of float32: a part of the weights and of the state, and the slots beside the weights."""

    layout: Layout
    config: Mapping[str, object]
    weights: np.ndarray
    state: np.ndarray
    slots: dict[str, np.ndarray] = field(default_factory=dict)
    specs: Sequence[TableSpec] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        self.optimizer = optimizers.from_config(self.config)
        slots = self.optimizer.slots
        self.tables = {spec.name: Table(spec, self.seed, slots) for spec in self.specs}
        fresh = {
            name: np.full(self.weights.size, value, np.float32)
            for name, value in self.optimizer.slots.items()
        }
        self.slots = {name: self.slots.get(name, slot) for name, slot in fresh.items()}

    @classmethod
    def restored(cls, state: PartState[np.ndarray]) -> Model:
        """The model of a checkpoint; slots it does not hold begin anew."""
        specs = [table.spec for table in state.tables.values()]
        slots = dict(state.slots)
        model = cls(state.layout, state.optimizer, state.weights, state.state, slots, specs, state.seed)
        for name, table in state.tables.items():
            model.tables[name].restore(table)
        return model

    def apply(
        self, update: Update, gradient: Sequence[np.ndarray], delta: Sequence[np.ndarray], each: Each = map
    ) -> None:
        """One update by the chunks of a summed gradient and of summed changes of state."""

        def learn(piece: slice, chunk: np.ndarray) -> None:
            slots = {name: slot[piece] for name, slot in self.slots.items()}
            self.optimizer.apply(update, self.weights[piece], _read_only(chunk), slots)

        def shift(piece: slice, chunk: np.ndarray) -> None:
            kernels.add(self.state[piece], _read_only(chunk), np.float32(update.scale))

        list(each(learn, pieces(self.weights.size), gradient))
        list(each(shift, pieces(self.state.size), delta))

    def make_rows(self, gradients: Iterable[RowGradients]) -> dict[str, Rows]:
        """Sort gradients by table and make the rows they need, so that no memory can be wanting later."""
        tables = joined(gradients)
        for name, (ids, _) in tables.items():
            self.tables[name].make(ids)
        return tables

    def apply_rows(self, update: Update, gradients: Mapping[str, Rows]) -> None:
        """The same update for rows of tables."""
        for name, (ids, values) in gradients.items():
            self.tables[name].apply(self.optimizer, update, ids, values)


def _read_only(values: np.ndarray) -> np.ndarray:
    """The same values, of the one type that kernels are compiled for, be they off the wire or summed here."""
    view = values.view()
    view.flags.writeable = False
    return view
