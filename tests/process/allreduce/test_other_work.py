"""Members that evaluate while others train, and one that missed what the others did: no state is taken for
another.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from together import Together

from elastic_runtime.observe import events

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

Train = Callable[..., Together]


def test_losses_while_some_evaluate_an_older_version_and_others_train(train: Train, tmp_path: Path) -> None:
    """A worker that shows a snapshot holds the present model again before anybody hears what it holds."""
    from harness import write_data

    evaluation = (f"--validation_data={write_data(tmp_path / 'v', 300)}", "--evaluation_steps=20")
    run = train("--num_workers=3", "--num_epochs=6", *evaluation, model="judged", pace=0.03)
    for loss in range(3):
        ranks = run.until_together(size=3)
        run.until(lambda: is_judged_late(run), "an evaluation is due, and the model went on meanwhile")
        run.until_survived([ranks[loss % 2]])
    run.pace(0)
    summary = run.assert_trained_right(losses=3)
    judged = [evaluation["version"] for evaluation in summary["evaluations"]]
    assert judged == sorted(set(judged))
    assert judged[-1] == summary["version"]


def is_judged_late(run: Together) -> bool:
    version = run.status().version
    due = version // 20 * 20
    return 0 < due < version and due not in {judged.version for judged in run.events(events.Evaluation)}


def test_one_that_was_left_out_and_comes_back_alone_takes_the_ledger_back_with_it(train: Train) -> None:
    """What the others trained without it is lost with them, and trained again."""
    run = train("--num_workers=2", "--num_epochs=4", "--collective_timeout=3")
    silent, other = run.until_together(size=2)
    assert run.until_survived([silent], number=signal.SIGSTOP) == [other]
    done = run.status().records_done
    run.until_done(done + 200)
    run.strike(other)
    run.go_on(silent)
    run.until_said(r"the model is back at .*: version \d+, [1-9]\d* records are trained again")
    run.pace(0)
    run.assert_trained_right(losses=2, went_back=True)
