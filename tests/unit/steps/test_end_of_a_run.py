"""Who comes after a step that has failed: another attempt, the run's exit handler, or nobody."""

from __future__ import annotations

from typing import Any

import pytest

from elastic_runtime.steps.successor import handler_has_run, is_tried_again

ROOT = "run-x.root"
STEP = f"{ROOT}.exit-handler-1.train.executor"


def workflow(phase: str = "", *, attempts: str = "") -> dict[str, Any]:
    """As Argo writes it, with an exit handler in this phase, if it was ever begun."""
    limit = [{"name": "retry-max-count", "value": attempts}] if attempts else []
    nodes: list[dict[str, Any]] = [
        {"name": "run-x", "phase": "Running"},
        {"name": f"{ROOT}.exit-handler-1", "phase": "Running"},
        {"name": STEP, "phase": "Running", "inputs": {"parameters": limit}},
        {"name": f"{STEP}(0)", "phase": "Running"},
    ]
    if phase:
        nodes += [{"name": f"{ROOT}.exit-handler-1.onExit", "phase": phase}]
        nodes += [{"name": f"{ROOT}.exit-handler-1.onExit.clean-up", "phase": "Succeeded"}]
    return {"status": {"nodes": {str(number): node for number, node in enumerate(nodes)}}}


@pytest.mark.parametrize(
    ("phase", "has_run"), [("", False), ("Running", False), ("Failed", False), ("Succeeded", True)]
)
def test_a_handler_that_has_succeeded_does_not_run_again(phase: str, has_run: bool) -> None:
    assert handler_has_run(workflow(phase), f"{STEP}(0)") is has_run


@pytest.mark.parametrize("elsewhere", [f"{ROOT}.train.executor", f"{ROOT}.exit-handler-11.train.executor"])
def test_the_handler_of_another_part_of_the_run_is_not_meant(elsewhere: str) -> None:
    assert not handler_has_run(workflow("Succeeded"), elsewhere)


def test_a_run_of_which_no_nodes_are_known_may_have_all_before_it() -> None:
    assert not handler_has_run({"metadata": {}}, STEP)


@pytest.mark.parametrize(
    ("node", "attempts", "again"),
    [
        (f"{STEP}(0)", "2", True),
        (f"{STEP}(1)", "2", True),
        (f"{STEP}(2)", "2", False),
        (f"{STEP}(0)", "", False),
        (STEP, "", False),
    ],
)
def test_a_step_is_tried_as_often_as_its_task_says(node: str, attempts: str, again: bool) -> None:
    assert is_tried_again(workflow(attempts=attempts), node) is again
