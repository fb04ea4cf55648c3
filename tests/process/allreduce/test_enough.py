"""Workers that have trained enough together stop together, in the midst of their shards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from together import Together

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_a_world_stops_at_the_maximal_step_and_what_it_finished_before_is_done(
    train: Callable[..., Together],
) -> None:
    run = train("--num_workers=2", "--num_epochs=4", "--max_step=30", pace=0.1)
    run.until_together(size=2)
    run.pace(0)
    summary = run.assert_right_end(exact=False)
    assert summary["version"] == 30
    assert summary["records_retrained"] == 0
    begun = 2 * 3 * 16  # each of the two may be in a shard of which it has trained all minibatches but one
    trained = 30 * 16  # at least: the other may have come late
    assert summary["records_done"] >= trained - begun
