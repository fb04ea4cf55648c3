"""Workers that do not hold the same weights any more: the job does not go on as if they did."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest
from together import Together

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_members_found_unlike_at_a_change_fail_the_job_by_name(train: Callable[..., Together]) -> None:
    run = train("--num_workers=3", "--num_epochs=4", model="drifting")
    *_, leaving = run.until_together(size=3)
    (run.cwd / "drift").touch()
    run.until_steps(2)
    run.strike(leaving, number=signal.SIGTERM)
    summary = run.assert_right_end(1, "failed", exact=False)
    name = rf"elasticdl-{run.name}-worker-\d"
    found = re.fullmatch(rf"({name}) and ({name}) hold different weights of version \d+", summary["error"])
    assert found, summary["error"]
    assert found[1] != found[2]
    assert found[0] in run.text(), "and it is said"
