"""Rows of embedding tables: finding them by id, their first values, adding up gradients; all compiled.

The index is open addressing with linear probing: `keys` are ids, `places` the row of each, -1 where there
is none. A first value depends on seed, id and column alone, so it is the same whoever asks first and on
whatever server.
"""

from __future__ import annotations

import numpy as np

from elastic_runtime.ps.kernels import compiled

ZEROS, CONSTANT, UNIFORM, NORMAL = range(4)


@compiled
def mix(x: np.uint64) -> np.uint64:
    """Spread the bits of a number (splitmix64's last steps)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def find(keys: np.ndarray, places: np.ndarray, ids: np.ndarray, rows: np.ndarray) -> None:
    """Write the row of each id, or -1."""
    mask = np.uint64(keys.size - 1)
    for i in range(ids.size):
        at = mix(np.uint64(ids[i])) & mask
        while places[at] >= 0 and keys[at] != ids[i]:
            at = (at + np.uint64(1)) & mask
        rows[i] = places[at]


@compiled
def insert(keys: np.ndarray, places: np.ndarray, ids: np.ndarray, rows: np.ndarray, count: int) -> int:
    """`find`, with a new row after the `count` there are for an id that has none; how many there are then."""
    mask = np.uint64(keys.size - 1)
    for i in range(ids.size):
        at = mix(np.uint64(ids[i])) & mask
        while places[at] >= 0 and keys[at] != ids[i]:
            at = (at + np.uint64(1)) & mask
        if places[at] < 0:
            keys[at], places[at] = ids[i], count
            count += 1
        rows[i] = places[at]
    return count


@compiled
def first_values(kind: int, scale: np.float32, seed: np.uint64, ids: np.ndarray, values: np.ndarray) -> None:
    """What the rows of these ids are before they learn anything."""
    unit = np.float32(1.0 / (1 << 24))
    for i in range(ids.size):
        base = mix(seed ^ mix(np.uint64(ids[i])))
        for j in range(values.shape[1]):
            if kind <= CONSTANT:
                values[i, j] = scale if kind == CONSTANT else np.float32(0)
                continue
            bits = mix(base + np.uint64(j + 1) * np.uint64(0x9E3779B97F4A7C15))
            one = np.float32(bits >> np.uint64(40)) * unit
            if kind == UNIFORM:
                values[i, j] = (one * np.float32(2) - np.float32(1)) * scale
            else:
                other = np.float32((bits >> np.uint64(8)) & np.uint64(0xFFFFFF)) * unit
                radius = np.sqrt(np.float32(-2) * np.log(np.float32(1) - one))
                values[i, j] = radius * np.cos(np.float32(2 * np.pi) * other) * scale


@compiled
def read(table: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """Fetch the rows that there are; the others keep what is in `values`."""
    for i in range(rows.size):
        if rows[i] >= 0:
            for j in range(table.shape[1]):
                values[i, j] = table[rows[i], j]


@compiled
def write(table: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """Put rows back."""
    for i in range(rows.size):
        for j in range(table.shape[1]):
            table[rows[i], j] = values[i, j]


@compiled
def add_up(rows: np.ndarray, gradients: np.ndarray, marks: np.ndarray) -> int:
    """Sum gradients of the same row into its first, moving both arrays' distinct rows to the front; how many.

    `marks` is a buffer of -1 for each row of the table, and is so again afterwards.
    """
    distinct = 0
    for i in range(rows.size):
        at = marks[rows[i]]
        if at < 0:
            marks[rows[i]] = at = distinct
            rows[at] = rows[i]
            for j in range(gradients.shape[1]):
                gradients[at, j] = gradients[i, j]
            distinct += 1
        else:
            for j in range(gradients.shape[1]):
                gradients[at, j] += gradients[i, j]
    for i in range(distinct):
        marks[rows[i]] = -1
    return distinct
