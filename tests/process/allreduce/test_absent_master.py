"""The master killed with -9 while a world trains, and while it is about to form another."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from together import Together

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

Train = Callable[..., Together]


def test_a_world_trains_on_without_its_master_and_the_next_one_finds_it(train: Train) -> None:
    """No worker is started again, no world formed anew, and no record trained twice."""
    run = train("--num_workers=3", "--num_epochs=4")
    ranks = run.until_together(size=3)
    seats, pids = run.seats(), run.pids()

    run.kill_master()
    done = run.status().records_done
    run.start().until_said(r"goes on where it was left: \d+ records done")
    run.until_done(done + 200)
    run.kill_master()
    run.start().until_steps(3)

    assert run.pids() == pids
    assert run.seats() == seats
    assert run.losses_met(*ranks) == []
    summary = run.assert_trained_right(losses=0)
    assert summary["records_retrained"] == 0
    assert summary["workers_relaunched"] == 0


def test_a_master_is_killed_when_a_world_has_broken_and_the_next_has_not_formed(train: Train) -> None:
    """Once when one member asks for its place and one has noticed nothing, once when nobody is in a world."""
    run = train("--num_workers=3", "--num_epochs=4")
    asks, lost, late = run.until_together(size=3)
    world = run.seats()[0].world
    run.stop(late)
    run.strike(lost)
    run.until_says(asks, f"world {world} is no more")
    run.kill_master()
    run.go_on(late)

    run.start()
    run.until_together(asks, late, after=world)

    lost, *left = run.until_together(size=3)
    world = run.seats()[0].world
    run.send(signal.SIGSTOP)  # a master that never hears of the loss
    run.strike(lost)
    for worker in left:
        run.until_says(worker, f"world {world} is no more")
    run.kill_master()
    run.start()
    run.until_together(*left, after=world)
    run.assert_trained_right(losses=2 + 2)
