"""Embedding tables: rows of float32 that come into being when their id first gets a gradient.

Rows lie one after the other in growing buffers, in order of creation, with the optimizer's slots beside
them; an index leads from id to row. An id without a row reads as its first value, which depends on nothing
but seed, table and id. Rows are updated by the dense optimizers on gathered rows, so sparse equals dense;
equal ids are summed before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from elastic_runtime.ps import row_kernels
from elastic_runtime.ps.optimizers import Optimizer, Update
from elastic_runtime.ps.rows import TableSpec, TableState

_FIRST_VALUES = {
    "zeros": (row_kernels.ZEROS, 0.0),
    "ones": (row_kernels.CONSTANT, 1.0),
    "constant": (row_kernels.CONSTANT, None),
    "uniform": (row_kernels.UNIFORM, None),
    "normal": (row_kernels.NORMAL, None),
}


class Table:
    """One server's rows of a table."""

    def __init__(self, spec: TableSpec, seed: int, slots: Mapping[str, float]) -> None:
        self.spec, self.count = spec, 0
        self._seed = _mixed_seed(spec.name, seed)
        self._ids = np.empty(0, np.int64)
        self._firsts = dict(slots)
        self._buffers = {name: np.empty((0, spec.dimension), np.float32) for name in ("", *slots)}
        self._marks = np.empty(0, np.int64)
        self._index(1 << 10)

    def pull(self, ids: np.ndarray, earlier: TableState | None = None) -> np.ndarray:
        """The rows of these ids, as they are or as they were; nothing is changed."""
        rows = np.empty(ids.size, np.int64)
        row_kernels.find(self._keys, self._places, ids, rows)
        buffer = self._buffers[""]
        if earlier is not None:  # rows never move: those that came later were not there
            buffer = earlier.values
            rows[rows >= len(buffer)] = -1
        values = self.first_values(ids) if (rows < 0).any() else self._empty(ids.size)
        row_kernels.read(buffer, rows, values)
        return values

    def apply(self, optimizer: Optimizer, update: Update, ids: np.ndarray, gradients: np.ndarray) -> None:
        """One update of the rows of these ids; both arrays are used up."""
        rows = self.make(ids)
        distinct = row_kernels.add_up(rows, gradients, self._marks)
        rows, gradients = rows[:distinct], gradients[:distinct]
        gathered = {}
        for name, buffer in self._buffers.items():
            gathered[name] = self._empty(distinct)
            row_kernels.read(buffer, rows, gathered[name])
        flat = {name: values.reshape(-1) for name, values in gathered.items()}
        summed = gradients.reshape(-1)
        summed.flags.writeable = False
        optimizer.apply(update, flat.pop(""), summed, flat)
        for name, values in gathered.items():
            row_kernels.write(self._buffers[name], rows, values)

    def state(self, *, slots: bool) -> TableState:
        """The rows there are, as they are now."""
        saved = {
            name: buffer[: self.count].copy() for name, buffer in self._buffers.items() if slots or not name
        }
        return TableState(self.spec, self._ids[: self.count].copy(), saved.pop(""), saved)

    def restore(self, state: TableState) -> None:
        """Take these rows, of which there are none yet; slots that were not saved begin anew."""
        rows = self.make(state.ids)
        for name, values in {"": state.values, **state.slots}.items():
            if name in self._buffers:
                self._buffers[name][rows] = values

    def first_values(self, ids: np.ndarray) -> np.ndarray:
        """The rows of these ids before they learn anything."""
        kind, fixed = _FIRST_VALUES[self.spec.initializer]
        values = self._empty(ids.size)
        scale = np.float32(self.spec.scale if fixed is None else fixed)
        row_kernels.first_values(kind, scale, self._seed, ids, values)
        return values

    def make(self, ids: np.ndarray) -> np.ndarray:
        """The row of each id, made if there is none."""
        if 2 * (self.count + ids.size) > self._keys.size:
            self._index(4 * (self.count + ids.size))
        rows = np.empty(ids.size, np.int64)
        before = self.count
        self.count = row_kernels.insert(self._keys, self._places, ids, rows, before)
        if self.count > before:
            self._add(ids, rows, before)
        return rows

    def _add(self, ids: np.ndarray, rows: np.ndarray, before: int) -> None:
        if self.count > self._ids.size:
            self._grow(max(self.count, self._ids.size * 3 // 2))
        new = rows >= before
        self._ids[rows[new]] = ids[new]
        fresh = slice(before, self.count)
        self._buffers[""][fresh] = self.first_values(self._ids[fresh])
        for name, value in self._firsts.items():
            self._buffers[name][fresh] = value
        self._marks[fresh] = -1

    def _grow(self, capacity: int) -> None:
        self._ids = _longer(self._ids, capacity)
        self._marks = _longer(self._marks, capacity)
        for name in self._buffers:
            self._buffers[name] = _longer(self._buffers[name], capacity)

    def _index(self, wanted: int) -> None:
        size = 1 << (wanted - 1).bit_length()
        self._keys, self._places = np.empty(size, np.int64), np.full(size, -1, np.int32)
        rows = np.empty(self.count, np.int64)
        row_kernels.insert(self._keys, self._places, self._ids[: self.count], rows, 0)

    def _empty(self, count: int) -> np.ndarray:
        return np.empty((count, self.spec.dimension), np.float32)


def _longer(buffer: np.ndarray, capacity: int) -> np.ndarray:
    longer = np.empty((capacity, *buffer.shape[1:]), buffer.dtype)
    longer[: len(buffer)] = buffer
    return longer


def _mixed_seed(table: str, seed: int) -> np.uint64:
    digest = hashlib.sha256(f"{seed}/{table}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))
