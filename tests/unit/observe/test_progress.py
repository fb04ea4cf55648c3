from __future__ import annotations

import pytest

from elastic_runtime.observe.progress import Progress, goodput


def steady(*, pace: int, seconds: int, total: int = 10_000) -> Progress:
    """Each second, as many records are trained and done."""
    progress = Progress(started=100.0, total=total)
    for second in range(seconds + 1):
        go_on(progress, 100.0 + second, records=pace if second else 0, done=pace * second)
    return progress


def go_on(progress: Progress, now: float, *, records: int, done: int, seconds: float = 1.0) -> None:
    progress.worked(now, seconds=seconds, records=records)
    progress.update(now, done=done)


def test_steady_pace_is_told_exactly_from_the_start() -> None:
    assert steady(pace=50, seconds=2).records_per_second(102.0) == pytest.approx(50)


def test_time_left_follows_the_pace() -> None:
    assert steady(pace=50, seconds=100).seconds_left(200.0) == pytest.approx(100)


def test_time_left_is_unknown_before_anything_is_done() -> None:
    progress = Progress(started=0.0, total=100)
    assert progress.seconds_left(5.0) is None
    progress.update(5.0, done=0)
    progress.update(6.0, done=0)
    assert progress.seconds_left(6.0) is None


def test_nothing_is_left_when_all_is_done() -> None:
    assert steady(pace=100, seconds=100).seconds_left(500.0) == 0.0


def test_a_standstill_shows_in_the_pace_within_seconds_and_not_in_the_time_left() -> None:
    progress = steady(pace=50, seconds=60)
    left = progress.seconds_left(160.0)
    for second in range(1, 11):
        progress.update(160.0 + second, done=3000)
    assert progress.records_per_second(170.0) < 50 / 20
    assert left is not None
    assert left < (progress.seconds_left(170.0) or 0.0) < 3 * left
    assert 0 < progress.records_per_second(171.0) < progress.records_per_second(170.0)


def test_long_steps_are_no_standstills() -> None:
    progress = Progress(started=0.0, total=10_000)
    for second in range(301):
        if second % 10 == 0:
            progress.worked(float(second), seconds=10.0 if second else 0.0, records=500 if second else 0)
        progress.update(float(second), done=0)
        assert second < 60 or 35 < progress.records_per_second(float(second)) < 65
    assert progress.training_seconds == pytest.approx(300)


def test_the_pace_is_that_of_records_trained_however_large_the_shards_are() -> None:
    progress = Progress(started=0.0, total=10_000)
    for second in range(31):
        go_on(progress, float(second), records=100 if second else 0, done=0)
    assert progress.records_per_second(30.0) == pytest.approx(100)


def test_change_of_pace_is_seen_within_seconds() -> None:
    progress = steady(pace=50, seconds=60)
    for second in range(1, 11):
        go_on(progress, 160.0 + second, records=200, done=3000 + 200 * second)
    assert progress.records_per_second(170.0) == pytest.approx(200, rel=0.05)


def test_model_that_went_back_makes_no_negative_time_left() -> None:
    progress = steady(pace=50, seconds=60)
    progress.update(161.0, done=1000)
    assert (progress.seconds_left(161.0) or 0.0) > 9000 / 50
    assert progress.done == 1000


def test_records_done_before_a_takeover_are_not_counted_as_pace() -> None:
    progress = Progress(started=0.0, total=10_000)
    progress.update(50.0, done=5000)
    go_on(progress, 51.0, records=10, done=5010)
    assert progress.records_per_second(51.0) == pytest.approx(10)
    assert progress.seconds_left(51.0) == pytest.approx(499)


def test_clock_that_stands_still_or_jumps_back_does_no_harm() -> None:
    progress = steady(pace=50, seconds=10)
    training = progress.training_seconds
    go_on(progress, 110.0, records=0, done=600)
    go_on(progress, 90.0, records=0, done=700)
    assert progress.records_per_second(80.0) == pytest.approx(50)
    assert progress.training_seconds == training


def test_only_time_in_finished_steps_counts_as_training() -> None:
    progress = Progress(started=0.0, total=100, training_seconds=7.0)
    progress.worked(10.0, seconds=3.0, records=1)
    progress.worked(60.0, seconds=2.0, records=1)  # after a standstill of 48 seconds
    assert progress.training_seconds == 7.0 + 5.0


def test_what_two_workers_did_at_the_same_time_counts_once() -> None:
    progress = Progress(started=0.0, total=100)
    for now in range(1, 11):
        progress.worked(float(now), seconds=1.0, records=1)
        progress.worked(now + 0.5, seconds=1.0, records=1)
    assert progress.training_seconds == pytest.approx(10.5)


def test_goodput_is_training_time_without_what_was_trained_twice() -> None:
    assert goodput(training_seconds=80, wall_seconds=100, done=900, retrained=100) == pytest.approx(0.72)
    assert goodput(training_seconds=0, wall_seconds=0, done=0, retrained=0) == 0.0
    assert goodput(training_seconds=120, wall_seconds=100, done=1, retrained=0) == 1.0
