"""Tasks of one name, in nested pipelines and in loops: each has a row, a reason and results of its own.

KFP's server tells of all that the workflow has, by bare names; the workflow has the places.
"""

from __future__ import annotations

from typing import Any

import kfp_server_api
import pytest

from pipelines.engines import Phase, kfp_status
from pipelines.packages.kfp import KfpPackage
from pipelines.sweep import sweep

ROOT = "sweep-x.root.exit-handler-1"
PATHS = KfpPackage(sweep).paths()
TRAININGS = ["training/train", "training-2/train", "training-3/train"]


def node(name: str, phase: str, kind: str = "DAG", message: str = "") -> dict[str, Any]:
    """As Argo keeps one of the workflow that KFP makes of a run."""
    ended = {} if phase in {"Pending", "Running"} else {"finishedAt": "2026-01-01T00:01:00Z"}
    return {
        "id": f"sweep-x-{name}",
        "name": f"{ROOT}.{name}" if name else ROOT,
        "displayName": name.rpartition(".")[2],
        "type": kind,
        "templateName": "system-container-impl" if kind == "Pod" else "system-container-executor",
        "phase": phase,
        "message": message,
        "startedAt": "2026-01-01T00:00:00Z",
        **ended,
    }


def trained(pipeline: str, phase: str, message: str = "") -> list[dict[str, Any]]:
    """A nested pipeline with its training, whose pod ended so."""
    return [
        node(f"{pipeline}-driver", "Succeeded", "Pod"),
        node(pipeline, phase),
        node(f"{pipeline}.train-driver", "Succeeded", "Pod"),
        node(f"{pipeline}.train", phase),
        node(f"{pipeline}.train.executor", phase, "Retry"),
        node(f"{pipeline}.train.executor(0)", phase, "Pod", message),
    ]


def workflow(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "sweep-x"}, "status": {"nodes": {each["id"]: each for each in nodes}}}


def run(state: str, *nodes: dict[str, Any]) -> kfp_server_api.V2beta1Run:
    """As the server tells of these nodes: a task for each, in the order of their ids, by its bare name."""
    tasks = [
        kfp_server_api.V2beta1PipelineTaskDetail(
            display_name=each["displayName"],
            state="FAILED" if each["phase"] == "Error" else each["phase"].upper(),
        )
        for each in sorted(nodes, key=lambda each: str(each["id"]))
    ]
    return kfp_server_api.V2beta1Run(
        state=state, run_details=kfp_server_api.V2beta1RunDetails(task_details=tasks)
    )


def phases(state: str, *nodes: dict[str, Any], order: list[str] = PATHS) -> dict[str, Phase]:
    shown = kfp_status.steps(run(state, *nodes), order, workflow(*nodes))
    return {step.name: step.phase for step in shown}


def test_a_step_of_a_nested_pipeline_is_named_with_it() -> None:
    assert PATHS[0] == "convert"
    assert sorted(PATHS[1:4]) == sorted(TRAININGS)
    assert PATHS[4] == "compare"
    assert {*PATHS[5:]} == {"clean-up-all/clean-up", "clean-up-all/clean-up-2", "clean-up-all/clean-up-3"}


@pytest.mark.parametrize("second", ["Failed", "Error"])
def test_each_training_has_a_row_of_its_own(second: str) -> None:
    nodes = [
        *trained("training", "Succeeded"),
        *trained("training-2", second),
        *trained("training-3", "Running"),
    ]
    shown = phases("RUNNING", node("convert", "Succeeded"), *nodes)
    assert [shown[path] for path in TRAININGS] == [Phase.SUCCEEDED, Phase.FAILED, Phase.RUNNING]
    assert shown["convert"] is Phase.SUCCEEDED
    assert shown["compare"] is Phase.WAITING
    assert [*shown] == PATHS


def test_of_two_that_failed_both_reasons_are_told() -> None:
    nodes = [
        *trained("training", "Failed", "main: Error (exit code 1): records 0-9 are bad"),
        *trained("training-2", "Failed", "main: Error (exit code 2): no such model"),
        *trained("training-3", "Succeeded"),
    ]
    assert kfp_status.reasons(workflow(*nodes)) == {
        "training/train": "records 0-9 are bad",
        "training-2/train": "no such model",
    }


def test_where_the_server_does_not_show_the_workflow_the_worst_of_them_is_told() -> None:
    nodes = [
        *trained("training", "Succeeded"),
        *trained("training-2", "Failed"),
        *trained("training-3", "Running"),
    ]
    shown = kfp_status.steps(run("RUNNING", *nodes), PATHS, {})
    (train,) = [step for step in shown if step.name.endswith("train")]
    assert (train.name, train.phase, train.detail) == ("train", Phase.FAILED, "1 of 3 of this name")
    nodes = trained("training", "Running")
    (train,) = [s for s in kfp_status.steps(run("RUNNING", *nodes), PATHS, {}) if s.name == "train"]
    assert (train.phase, train.detail) == (Phase.RUNNING, "1 of 3 of this name")


@pytest.mark.parametrize("driver", ["training-2-driver", "training-2.train-driver"])
def test_for_a_driver_that_has_no_room_the_step_waits_that_it_is_to_start(driver: str) -> None:
    held = node(driver, "Pending", "Pod", "Unschedulable: 0/3 nodes")
    nodes = [*trained("training", "Running"), held]
    shown = kfp_status.steps(run("RUNNING", *nodes), PATHS, workflow(*nodes))
    assert {step.name: step.detail for step in shown if step.detail} == {
        "training-2/train": "Unschedulable: 0/3 nodes"
    }


def test_iterations_of_a_loop_are_told_apart() -> None:
    loop = "for-loop-2.iteration-iterations({0}:{0}).iteration-item"
    nodes = [
        node("for-loop-2.iteration-driver", "Succeeded", "Pod"),
        *(each for i, phase in enumerate(["Failed", "Running"]) for each in trained(loop.format(i), phase)),
    ]
    assert phases("RUNNING", *nodes, order=["train", "compare"]) == {
        "train(0)": Phase.FAILED,
        "train(1)": Phase.RUNNING,
        "compare": Phase.WAITING,
    }


def test_what_each_has_made_is_told_by_its_place() -> None:
    nodes = [*trained("training", "Succeeded"), *trained("training-2", "Succeeded")]
    ran = workflow(*nodes)
    logs = {pod: [f"said by {number}"] for number, pod in enumerate(kfp_status.pods(ran))}
    assert len(logs) == 2
    assert [*kfp_status.results(ran, logs)] == ["training/train said by 0", "training-2/train said by 1"]
