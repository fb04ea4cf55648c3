"""A member that does not answer for a while: waited for up to a deadline, then gone on without."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from together import Together

from elastic_runtime.observe import events

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

Train = Callable[..., Together]


def test_a_silence_of_5_s_changes_nothing(train: Train) -> None:
    run = train("--num_workers=2", "--num_epochs=3")
    first, second = run.until_together(size=2)
    seats = run.seats()
    for worker in (second, first):
        run.stop(worker)
        time.sleep(5.0)  # is what the test is about
        run.until_it_stands_still()  # what was trained before may be known late
        run.go_on(worker)
        run.until_steps(2)
    assert run.seats() == seats
    assert run.losses_met(first, second) == []
    assert run.assert_trained_right(losses=0)["records_retrained"] == 0


def test_one_silent_for_longer_than_the_deadline_is_left_out_and_comes_back_as_a_newcomer(
    train: Train,
) -> None:
    """What it had in hand is given back and told: of its last step nobody knows whether the others have it.

    So a shard it had begun, and at most one it had finished just before, are trained again, nothing else.
    """
    run = train("--num_workers=3", "--num_epochs=4", "--collective_timeout=3")
    silent, *others = run.until_together(size=3)
    assert run.until_survived([silent], number=signal.SIGSTOP) == others
    version = run.until_steps(3)

    run.go_on(silent)
    assert run.until_together(size=3) == [*others, silent]
    assert run.entered(silent)[-1].version >= version
    assert {event.worker for event in run.events(events.ShardRequeued)} == {f"elasticdl-{run.name}-{silent}"}
    summary = run.assert_trained_right(losses=2)
    assert summary["workers_relaunched"] == 0
    assert summary["records_retrained"] > 0


def test_one_that_hangs_in_a_step_is_left_out_by_the_others_that_wait_for_its_sums(train: Train) -> None:
    """Its process answers, so nothing breaks: only that nobody makes progress shows it."""
    run = train("--num_workers=3", "--num_epochs=4", "--lease_timeout=10", model="stuck")
    hangs, *others = run.until_together(size=3)
    world, stuck = run.seats()[0].world, run.cwd / "stuck"
    stuck.write_text(str(run.pids()[f"elasticdl-{run.name}-{hangs}"]))
    run.until_together(*others, after=world)
    run.until_said(rf"{hangs} has not come in time: the others go on without it")
    run.until_steps(3)

    stuck.unlink()
    assert run.until_together(size=3) == [*others, hangs]
    run.pace(0)
    summary = run.assert_right_end()
    assert summary["workers_relaunched"] == 0


def test_one_that_comes_in_waits_no_longer_than_a_deadline_for_the_only_other_one(train: Train) -> None:
    """What the silent one alone holds is lost to the job, and told; it may come back as a newcomer."""
    run = train("--num_workers=2", "--num_epochs=4", "--lease_timeout=10")
    silent, lost = run.until_together(size=2)
    there, world = set(run.workers()), run.seats()[0].world
    run.strike(lost)
    [other] = run.until(lambda: set(run.workers()) - there, "a worker runs in place of the lost one")
    run.stop(other)  # so it does not come in before the only one that holds the model is silent
    assert run.until_together(silent, after=world) == [silent]
    run.stop(silent)
    run.go_on(other)
    run.until_said(rf"{silent} made no progress for 10 s: its work goes to others")
    run.until_said(r"the model is back at its beginning .*: version 0, \d+ records are trained again")
    assert run.until_together() == [other]

    run.go_on(silent)
    assert run.until_together(size=2) == [other, silent]
    run.pace(0)
    summary = run.assert_right_end()
    assert summary["workers_relaunched"] == 1
