from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.observe.events import Sample
from elastic_runtime.observe.thinning import Thinner, decimate

VALUES = st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=300)


@given(VALUES, st.integers(1, 20))
def test_decimated_curve_keeps_its_ends_and_extremes_and_the_first_nan(
    values: list[float], columns: int
) -> None:
    points = [(float(i), y) for i, y in enumerate(values)]
    kept = decimate(points, columns)
    assert set(map(repr, kept)) <= set(map(repr, points))
    assert (repr(kept[0]), repr(kept[-1])) == (repr(points[0]), repr(points[-1]))
    finite = [y for y in values if math.isfinite(y)]
    if finite:
        left = [y for _, y in kept if math.isfinite(y)]
        assert (min(left), max(left)) == (min(finite), max(finite))
    bad = [x for x, y in points if not math.isfinite(y)]
    assert [x for x, y in kept if not math.isfinite(y)][:1] == bad[:1]


@given(VALUES, st.integers(1, 20))
def test_decimated_curve_is_no_longer_than_its_columns_allow(values: list[float], columns: int) -> None:
    assert len(decimate([(float(i), y) for i, y in enumerate(values)], columns)) <= 7 * (columns + 1)


def test_points_of_one_moment_are_no_problem() -> None:
    assert decimate([(1.0, float(y)) for y in range(100)], 3) == [(1.0, 0.0), (1.0, 99.0)]


def thinned(samples: list[Sample]) -> list[Sample]:
    thinner = Thinner(started=0.0)
    kept = [s for sample in samples for s in thinner.offer(sample)]
    return kept + thinner.flush()


def test_samples_of_a_short_job_are_all_kept() -> None:
    samples = [Sample(time=float(i), records_done=i) for i in range(1, 290)]
    assert thinned(samples) == samples


def test_week_of_samples_keeps_spikes_and_the_first_nan_in_few_lines() -> None:
    week = 7 * 86_400
    losses = {100_000: 55.0, 300_000: -3.0, 500_001: math.nan, 500_002: math.nan}
    samples = [
        Sample(
            time=float(t), records_done=t, loss=losses.get(t, 0.5), records_per_second=0 if t == 7_777 else 9
        )
        for t in range(1, week, 3)
    ] + [Sample(time=t + 0.5, records_done=t, loss=losses.get(t, 0.5)) for t in losses]
    samples.sort(key=lambda sample: sample.time)
    kept = thinned(samples)
    assert len(kept) < 15_000
    times = {sample.time for sample in kept}
    assert {100_000.5, 300_000.5, 500_001.5, samples[0].time, samples[-1].time} <= times
    assert kept == sorted(kept, key=lambda sample: sample.time)
