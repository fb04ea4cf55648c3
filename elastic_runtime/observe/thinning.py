"""Fewer points that still look the same: of every stretch of a curve its first, lowest, highest and last.

A week of samples a second would make a report of a hundred megabytes. `Thinner` thins samples as they are
recorded (stretches grow with the job's age), `decimate` thins a finished curve to the columns it is drawn in.
The first value that is not finite is kept too: the moment a loss becomes NaN is what one looks for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from elastic_runtime.observe.events import Sample

Point = tuple[float, float]


def extremes(values: Sequence[float]) -> set[int]:
    """Where the first, lowest, highest, last and first non-finite value are."""
    if not values:
        return set()
    keep = {0, len(values) - 1}
    finite = [i for i, value in enumerate(values) if math.isfinite(value)]
    if finite:
        keep |= {finite[0], finite[-1]}
        keep |= {min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)}
    keep |= set([i for i, value in enumerate(values) if not math.isfinite(value)][:1])
    return keep


def decimate(points: Sequence[Point], columns: int) -> list[Point]:
    """The points (ascending in x) that matter when the curve is drawn in that many columns."""
    if len(points) <= 4 * columns:
        return list(points)
    left, right = points[0][0], points[-1][0]
    width = (right - left) / columns or 1.0
    kept: list[Point] = []
    begin = 0
    for end in range(1, len(points) + 1):
        if end < len(points) and _column(points[end], left, width) == _column(points[begin], left, width):
            continue
        stretch = points[begin:end]
        kept += [stretch[i] for i in sorted(extremes([y for _, y in stretch]))]
        begin = end
    return kept


def _column(point: Point, left: float, width: float) -> int:
    return int((point[0] - left) / width)


class Thinner:
    """Lets a job's samples through, all at first, then ever fewer (`fineness` for each doubling of age)."""

    def __init__(self, *, started: float, fineness: int = 300) -> None:
        self._started = started
        self._fineness = fineness
        self._opened = started
        self._waiting: list[Sample] = []

    def offer(self, sample: Sample) -> list[Sample]:
        """Take a sample in; out come those that are to be kept, oldest first."""
        if sample.time < self._opened + (self._opened - self._started) / self._fineness:
            self._waiting.append(sample)
            return []
        self._opened = sample.time
        return [*self.flush(), sample]

    def flush(self) -> list[Sample]:
        """What is to be kept of the samples held back; for the end of a job."""
        waiting, self._waiting = self._waiting, []
        keep = extremes([math.nan if s.loss is None else s.loss for s in waiting])
        keep |= extremes([s.records_per_second for s in waiting])
        return [waiting[i] for i in sorted(keep)]
