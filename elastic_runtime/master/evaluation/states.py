"""The state of a metric: what a worker reports of a shard instead of raw outputs, and how states add up.

A Keras metric keeps its count and sums in variables; over shards these are summed (or, by its rule, the
largest or smallest taken). The sums are kept in the widest type, so that a count does not stop growing
where float32 ends.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_RULES: dict[str, Callable[[Array, Array], Array]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True, slots=True, eq=False)
class MetricState:
    """The variables of one metric; `rule` tells how those of two shards become one: sum, max or min."""

    name: str
    variables: tuple[Array, ...]
    rule: str = "sum"


def mismatch(sums: Sequence[MetricState] | None, states: Sequence[MetricState]) -> str | None:
    """Why these states cannot be added to the sums so far; None if they can."""
    for state in states:
        if state.rule not in _RULES:
            return f"metric {state.name!r} has the unknown rule {state.rule!r}; known: {', '.join(_RULES)}"
        if any(variable.dtype.kind not in "fiub" for variable in state.variables):
            return f"metric {state.name!r} has variables that are not numbers"
    if sums is not None and _shape(sums) != _shape(states):
        return f"metrics {_shape(states)} do not fit those of other shards, {_shape(sums)}"
    return None


def add(sums: Sequence[MetricState] | None, states: Sequence[MetricState]) -> tuple[MetricState, ...]:
    """The sums with one more shard's states."""
    wide = tuple(MetricState(s.name, tuple(map(_widen, s.variables)), s.rule) for s in states)
    if sums is None:
        return wide
    return tuple(
        MetricState(a.name, tuple(map(_RULES[a.rule], a.variables, b.variables)), a.rule)
        for a, b in zip(sums, wide, strict=True)
    )


def in_order(figures: Mapping[str, float], states: Sequence[MetricState]) -> dict[str, float]:
    """The figures in the order of the metrics they are of, which is the user's; a message loses it.

    A metric of several figures calls them `metric/place`.
    """
    places = {state.name: place for place, state in enumerate(states)}

    def place(figure: str) -> tuple[int, int, str]:
        metric = figure
        while metric not in places and "/" in metric:
            metric = metric.rpartition("/")[0]
        return places.get(metric, len(places)), len(figure), figure

    return {name: figures[name] for name in sorted(figures, key=place)}


def pack(states: Iterable[MetricState]) -> list[Any]:
    """States as JSON-able values."""
    return [[s.name, [_pack_array(variable) for variable in s.variables], s.rule] for s in states]


def unpack(rows: Iterable[Sequence[Any]]) -> tuple[MetricState, ...]:
    """The inverse of `pack`."""
    return tuple(MetricState(name, tuple(map(_unpack_array, arrays)), rule) for name, arrays, rule in rows)


def _shape(states: Sequence[MetricState]) -> list[tuple[str, str, list[tuple[int, ...]]]]:
    return [(s.name, s.rule, [variable.shape for variable in s.variables]) for s in states]


def _widen(variable: Array) -> Array:
    return variable.astype(np.float64 if variable.dtype.kind == "f" else np.int64)


def _pack_array(array: Array) -> list[Any]:
    little = np.asarray(array, array.dtype.newbyteorder("<"))
    return [list(array.shape), little.dtype.str, base64.b64encode(little.tobytes()).decode()]


def _unpack_array(row: Sequence[Any]) -> Array:
    shape, dtype, text = row
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)
