from __future__ import annotations

import pytest

from elastic_runtime.observe.progress import Progress, goodput


def steady(*, pace: int, seconds: int, total: int = 10_000) -> Progress:
    progress = Progress(started=100.0, total=total)
    for second in range(seconds + 1):
        progress.update(100.0 + second, done=pace * second, training=True)
    return progress


def test_steady_pace_is_told_exactly_from_the_start() -> None:
    assert steady(pace=50, seconds=2).records_per_second(102.0) == pytest.approx(50)


def test_time_left_follows_the_pace() -> None:
    assert steady(pace=50, seconds=100).seconds_left(200.0) == pytest.approx(100)


def test_time_left_is_unknown_before_anything_is_done() -> None:
    progress = Progress(started=0.0, total=100)
    assert progress.seconds_left(5.0) is None
    progress.update(5.0, done=0, training=True)
    progress.update(6.0, done=0, training=True)
    assert progress.seconds_left(6.0) is None


def test_nothing_is_left_when_all_is_done() -> None:
    assert steady(pace=100, seconds=100).seconds_left(500.0) == 0.0


def test_pace_sinks_while_nothing_is_reported() -> None:
    progress = steady(pace=50, seconds=60)
    assert 0 < progress.records_per_second(200.0) < 10


def test_change_of_pace_is_seen_within_a_minute() -> None:
    progress = steady(pace=50, seconds=60)
    for second in range(1, 61):
        progress.update(160.0 + second, done=3000 + 200 * second, training=True)
    assert progress.records_per_second(220.0) == pytest.approx(200, rel=0.1)


def test_model_that_went_back_makes_no_negative_pace() -> None:
    progress = steady(pace=50, seconds=60)
    progress.update(161.0, done=1000, training=True)
    assert 0 < progress.records_per_second(161.0) <= 50
    assert progress.done == 1000


def test_records_done_before_a_takeover_are_not_counted_as_pace() -> None:
    progress = Progress(started=0.0, total=10_000)
    progress.update(50.0, done=5000, training=True)
    progress.update(51.0, done=5010, training=True)
    assert progress.records_per_second(51.0) == pytest.approx(10)


def test_clock_that_stands_still_or_jumps_back_does_no_harm() -> None:
    progress = steady(pace=50, seconds=10)
    progress.update(110.0, done=600, training=True)
    progress.update(90.0, done=700, training=True)
    assert progress.records_per_second(80.0) == pytest.approx(50)
    assert progress.training_seconds == 10.0


def test_only_time_in_which_shards_were_trained_counts_as_training() -> None:
    progress = Progress(started=0.0, total=100, training_seconds=7.0)
    for now, training in ((0.0, False), (3.0, True), (8.0, False), (20.0, False)):
        progress.update(now, done=0, training=training)
    assert progress.training_seconds == 7.0 + 5.0


def test_goodput_is_training_time_without_what_was_trained_twice() -> None:
    assert goodput(training_seconds=80, wall_seconds=100, done=900, retrained=100) == pytest.approx(0.72)
    assert goodput(training_seconds=0, wall_seconds=0, done=0, retrained=0) == 0.0
    assert goodput(training_seconds=120, wall_seconds=100, done=1, retrained=0) == 1.0
