"""Axes: from values to places along them, with ticks that people would have chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elastic_runtime.observe import figures

_TINY, _HUGE = 1e-100, 1e100
_CLOCK = (
    (180, 1, "seconds", (1, 2, 5, 10, 15, 20, 30, 60)),
    (180 * 60, 60, "minutes", (1, 2, 5, 10, 15, 20, 30, 60)),
    (72 * 3600, 3600, "hours", (1, 2, 3, 4, 6, 8, 12, 24)),
    (math.inf, 86400, "days", (1, 2, 3, 5, 7, 10, 14, 28)),
)


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale with its name, which includes the unit, and its labelled ticks."""

    name: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Where the value is, from 0 (low end) to 1 (high end); what is beyond an end is put there."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            share = (math.log(max(value, self.low)) - low) / (high - low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))


def linear(name: str, values: Sequence[float], *, zero: bool = False, whole: bool = False) -> Axis:
    """An axis over the finite values, from and to a tick; `zero` includes 0, `whole` has no fractions."""
    low, high = _span(values)
    low = min(0.0, low) if zero else low
    high = max(high, 1.0) if zero and high <= 0 else high
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-9):
        room = 0.5 if whole else abs(low) / 10 if abs(low) > _TINY else 0.1
        low, high = low - room, high + room
    step = _step((high - low) / 4)
    step = max(1.0, round(step)) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple((n * step, _tick(n * step, step)) for n in range(first, last + 1))
    return Axis(name, first * step, last * step, ticks)


def positions(name: str, values: Sequence[float]) -> Axis:
    """A horizontal axis of whole numbers that ends with the last value, not with a tick."""
    low, high = _span(values)
    high = max(high, low + 1, low + abs(low) * 1e-9)
    step = max(1.0, _step((high - low) / 5))
    ticks = range(math.ceil(low / step), math.floor(high / step) + 1)
    return Axis(name, low, high, tuple((n * step, _tick(n * step, step)) for n in ticks))


def loss(name: str, values: Sequence[float]) -> Axis:
    """An axis for a loss: logarithmic where a linear one would show nothing of the end."""
    finite = sorted(min(_HUGE, v) for v in values if math.isfinite(v))
    if finite and finite[0] > _TINY and finite[-1] / finite[len(finite) // 20] > 30:
        return _logarithmic(f"{name}, log scale", finite[len(finite) // 100], finite[-1])
    return linear(name, finite)


def elapsed(seconds: float) -> Axis:
    """The time since the job's start, in the unit that suits its length."""
    seconds = max(seconds, 0.001)
    unit, name, steps = next((size, name, steps) for limit, size, name, steps in _CLOCK if seconds <= limit)
    span = seconds / unit
    step: float = next((s for s in steps if span / s <= 7), _step(span / 5)) if span >= 2 else _step(span / 4)
    ticks = tuple((n * step * unit, _tick(n * step, step)) for n in range(int(span / step + 1e-9) + 1))
    return Axis(f"{name} since start", 0.0, seconds, ticks)


def _logarithmic(name: str, low: float, high: float) -> Axis:
    decades = math.log10(high) - math.log10(low)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if decades <= 2.5:
        marks = [m * 10.0**power for power in range(first, last + 1) for m in (1, 2, 5)]
    else:
        marks = [10.0**power for power in range(first, last + 1, math.ceil((last - first) / 6))]
    low = max((m for m in marks if m <= low), default=low)
    high = min((m for m in marks if m >= high), default=high)
    return Axis(name, low, high, tuple((m, figures.power(m)) for m in marks if low <= m <= high), log=True)


def _span(values: Sequence[float]) -> tuple[float, float]:
    finite = [max(-_HUGE, min(_HUGE, v)) for v in values if math.isfinite(v)]
    return (min(finite), max(finite)) if finite else (0.0, 1.0)


def _step(wish: float) -> float:
    power = 10.0 ** math.floor(math.log10(wish))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wish * 0.999)


def _tick(value: float, step: float) -> str:
    if abs(value) >= 1e6 or 0 < step < 1e-4:
        return figures.power(value)
    if abs(value) >= 10_000 and step >= 100:
        return f"{value / 1000:g}k"
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:.{places}f}" if places else figures.count(value)
