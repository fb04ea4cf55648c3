"""A job under fire: random pods, the master among them, are killed for a while, and still it ends exact."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest
from harness import MakeRun

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

SECONDS = float(os.environ.get("ELASTICDL_TEST_KILL_SECONDS", "30"))
SEED = int(os.environ.get("ELASTICDL_TEST_SEED", "0")) or int(time.time())


@pytest.mark.parametrize("steps", ["--use_async", "--grads_to_wait=1", "--grads_to_wait=2"])
def test_random_kills_of_all_pods_leave_an_exact_ledger(make_run: MakeRun, steps: str) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    run = make_run("--num_workers=2", "--num_ps_pods=2", "--num_epochs=2", "--checkpoint_steps=20", steps)
    run.pace(0.02)
    run.start().until_training(workers=1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(chance.uniform(1, 3))  # the moments of the kills are the test's input
        pids = run.pids()
        victim = chance.choice(["master", *pids])
        print(f"{time.monotonic() - end:.1f} s: {victim}")
        if victim == "master":
            run.kill_master()
            run.start()
        else:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pids[victim], signal.SIGKILL)
    run.pace(0)
    run.assert_right_end()
