"""kill -9 of any member of a world, of several, of all, and of one that is just coming in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from together import Together

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

Train = Callable[..., Together]


def test_rank_0_then_another_then_all_but_one_within_50_ms_then_all_are_killed(train: Train) -> None:
    """As long as one is left the model is where it was; when none is, it begins anew, and that is told."""
    run = train("--num_workers=3", "--num_epochs=8")
    first, *others = run.until_together(size=3)
    assert run.until_survived([first])[:2] == others, "the oldest that is left is the next source of truth"
    *_, last = run.ranks()
    run.until_survived([last])

    *others, last = run.until_together(size=3)
    version = run.status().version
    run.until_survived(others)
    assert run.seats()[0].version >= version - 1, "members are within a step of each other"

    struck = run.workers()  # those that are only coming, too: one may just have taken the model
    run.strike(*struck)
    run.until_said(r"the model is back at its beginning .*: version 0, \d+ records are trained again")
    summary = run.assert_trained_right(losses=4 + len(struck), went_back=True)
    assert summary["relaunches"]["preempted"] >= 5


def test_a_joiner_is_killed_while_the_others_wait_for_it_then_all_after_a_checkpoint(train: Train) -> None:
    """The joiner is stopped where it waits for its world, killed when that has formed with it: on without."""
    patience = ("--collective_timeout=200", "--lease_timeout=200")  # for as long as the joiner takes to start
    run = train("--num_workers=3", "--num_epochs=6", "--checkpoint_steps=10", *patience)
    *stay, lost = run.until_together(size=3)
    there = set(run.workers())
    run.until_survived([lost])
    [joiner] = run.until(lambda: set(run.workers()) - there, "a worker runs in place of the lost one")

    run.stop(stay[0])  # so nobody leaves the world that the joiner waits to see changed
    run.until_says(joiner, "waiting for the others")
    run.stop(joiner)
    world = run.seats()[0].world
    run.go_on(stay[0])
    run.until_said(rf"world {world + 1}: 3 workers train together, with {joiner}")
    run.strike(joiner)
    run.until_together(*stay, after=world + 1)
    assert not run.entered(joiner)

    run.until_said(r"checkpoint version-\d+ saved")
    struck = run.workers()
    run.strike(*struck)
    run.until_said(r"the model is that of \S+/version-\d+: version \d+, \d+ records are trained again")
    run.assert_trained_right(losses=2 + len(struck), went_back=True)
