"""Workers asked to leave with SIGTERM, and a seat that is taken and left again and again."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from together import Together

from elastic_runtime.observe import events

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

Train = Callable[..., Together]


def test_drained_workers_leave_after_their_shard_and_no_other_notices_a_loss(train: Train) -> None:
    """No step is lost: all leave the world after one and the same, so no collective is broken off.

    And no minibatch is repeated: the shard that the drained worker had begun is finished by itself, and what
    it had not begun goes to others.
    """
    run = train("--num_workers=3", "--num_epochs=6", pace=0.02)
    first, second, third = run.until_together(size=3)
    run.until_steps(2)  # the first of each is compiled, which takes long
    for leaving, stay in ((third, [first, second]), (first, [second])):
        assert run.until_survived([leaving], number=signal.SIGTERM)[: len(stay)] == stay
        run.until(lambda leaving=leaving: run.pod_ends(leaving), f"{leaving} has left")
        assert run.pod_ends(leaving) == ["drained"]
    assert run.losses_met(first, second, third) == []
    assert {event.exit_code for event in run.events(events.PodEnded)} == {75}

    assert {event.reason for event in run.events(events.ShardRequeued)} == {"given back"}
    summary = run.assert_trained_right(losses=2)
    assert summary["records_retrained"] == 0
    assert summary["relaunches"] == {"drained": 2}


def test_a_seat_that_is_taken_and_left_ten_times(train: Train) -> None:
    """By turns killed and drained, each time as soon as it trains along; the other is rank 0 throughout."""
    run = train("--num_workers=2", "--num_epochs=8", pace=0.08)
    [stays, *_] = run.until_together(size=2)
    for number in [signal.SIGKILL, signal.SIGTERM] * 5:
        first, other = run.until_together(size=2)
        assert first == stays
        assert run.until_survived([other], number=number)[0] == stays
    summary = run.assert_trained_right(losses=10)
    assert summary["relaunches"] == {"preempted": 5, "drained": 5}
    seats = run.entered(stays)[-20:]
    assert {seat.rank for seat in seats} == {0}
    assert {seat.size for seat in seats} == {1, 2}, "it trains alone meanwhile"
