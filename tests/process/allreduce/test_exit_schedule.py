"""A table of (step, who, how), as Horovod's own elastic tests have it, carried out against one job in one go.

A row is carried out when the model has reached its step, whatever the rows before it have set off: workers
are lost in the midst of changes, too. `ELASTICDL_TEST_SEED` makes another table.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from together import Together

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

SEED = int(os.environ.get("ELASTICDL_TEST_SEED", "4"))
ROWS = {"kill": 5, "term": 4, "stop 1 s": 21, "master": 10}
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop 1 s": signal.SIGSTOP}


@dataclass(frozen=True, slots=True)
class Row:
    """At this step this rank, or `any`, gets this."""

    step: int
    who: int | str
    how: str


def table(chance: random.Random) -> list[Row]:
    """All the rows, shuffled, a few steps apart."""
    hows = [how for how, count in ROWS.items() for _ in range(count)]
    chance.shuffle(hows)
    steps = itertools.accumulate(chance.randint(1, 6) for _ in hows)
    return [Row(step, chance.choice([0, 1, 2, "any"]), how) for step, how in zip(steps, hows, strict=True)]


def carry_out(run: Together, row: Row, chance: random.Random) -> None:
    """Do this now, to whoever has that rank; in a smaller world, to its last."""
    if row.how == "master":
        run.kill_master()
        run.start()
        return
    ranks = run.until(run.ranks, "somebody trains")
    who = chance.choice(ranks) if row.who == "any" else ranks[min(int(row.who), len(ranks) - 1)]
    run.strike(who, number=SIGNALS[row.how])
    if row.how == "stop 1 s":
        time.sleep(1.0)  # is what the row says
        run.go_on(who)
    else:
        run.until(lambda: who not in run.workers(), f"{who} is gone")  # so that no row strikes it again


def test_a_job_goes_through_a_table_of_forty_exits(train: Callable[..., Together]) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    rows = table(chance)
    assert len(rows) >= 40
    options = ("--num_workers=3", "--num_epochs=10", "--checkpoint_steps=10")
    run = train(*options, pace=0.02, model="normalized")
    for row in rows:
        run.until(lambda row=row: run.status().version >= row.step, f"step {row.step}")
        print(f"version {run.status().version}: {row}")
        carry_out(run, row, chance)
    summary = run.assert_trained_right(losses=len(rows) - ROWS["stop 1 s"], went_back=None)
    assert sum(summary["relaunches"].values()) == ROWS["kill"] + ROWS["term"], summary["relaunches"]
