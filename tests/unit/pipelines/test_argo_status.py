"""What is told of a workflow that runs, from statuses as Argo writes them."""

from __future__ import annotations

from typing import Any

from pipelines.engines import Phase, Step, argo_status

ORDER = ["convert", "train", "evaluate", "clean-up"]


def node(number: int, name: str, kind: str = "Retry", *, within: str = "w", **more: Any) -> dict[str, Any]:
    return {
        "id": f"w-{number}",
        "name": name,
        "displayName": name.rpartition(".")[2],
        "type": kind,
        "boundaryID": within,
        "startedAt": f"2026-01-01T00:00:{number:02}Z",
        **more,
    }


def workflow(*nodes: dict[str, Any], **status: Any) -> dict[str, Any]:
    root = node(0, "w", "DAG", within="") | {"id": "w"}
    store = {"s3": {"bucket": "artifacts", "endpoint": "127.0.0.1:5001"}}
    known = {"artifactRepositoryRef": {"artifactRepository": store}}
    return {"status": {"nodes": {each["id"]: each for each in (root, *nodes)}, **known, **status}}


CONVERTED = node(
    1,
    "w.convert",
    phase="Succeeded",
    finishedAt="2026-01-01T00:00:09Z",
    progress="1/2",
    children=["w-2"],
    outputs={
        "parameters": [{"name": "records", "value": "7000"}],
        "artifacts": [
            {"name": "dataset", "path": "/x", "s3": {"key": "n/w/dataset"}},
            {"name": "main-logs", "s3": {"key": "n/w/main.log"}},
        ],
    },
)
FIRST = node(2, "w.convert(0)", "Pod", phase="Succeeded")


def only(found: list[Step], name: str) -> Step:
    (step,) = [step for step in found if step.name == name]
    return step


def test_steps_come_in_the_order_of_the_pipeline_and_those_to_come_wait() -> None:
    found = argo_status.steps(workflow(CONVERTED, FIRST), ORDER)
    assert [step.name for step in found] == ORDER
    assert [step.phase for step in found] == [Phase.SUCCEEDED, Phase.WAITING, Phase.WAITING, Phase.WAITING]
    assert only(found, "convert").ended - only(found, "convert").began == 8
    assert only(found, "convert").detail == ""


def test_a_workflow_that_argo_has_not_seen_yet_has_only_waiting_steps() -> None:
    assert {step.phase for step in argo_status.steps({"status": {}}, ORDER)} == {Phase.WAITING}
    assert {step.phase for step in argo_status.steps({}, ORDER)} == {Phase.WAITING}


def test_what_a_pod_waits_for_and_which_attempt_it_is_are_told() -> None:
    training = node(3, "w.train", phase="Running", progress="0/1", children=["w-4", "w-5"])
    lost = node(4, "w.train(0)", "Pod", phase="Failed", message="Error (exit code 137)")
    again = node(5, "w.train(1)", "Pod", phase="Pending", message="Unschedulable: 0/3 nodes are available")
    found = only(argo_status.steps(workflow(training, lost, again), ORDER), "train")
    assert found.phase is Phase.WAITING
    assert found.detail == "attempt 2, Unschedulable: 0/3 nodes are available"


def test_between_two_attempts_a_step_waits_and_its_loss_is_told() -> None:
    training = node(3, "w.train", phase="Running", children=["w-4"])
    lost = node(4, "w.train(0)", "Pod", phase="Failed", message="Error (exit code 137)")
    found = only(argo_status.steps(workflow(training, lost), ORDER), "train")
    assert (found.phase, found.detail) == (Phase.WAITING, "Error (exit code 137)")


def test_progress_is_told_in_records() -> None:
    training = node(
        3, "w.train", phase="Running", progress="6001/12002", children=["w-4"]
    )  # with what follows
    runs = node(4, "w.train(0)", "Pod", phase="Running", progress="6000/12000")
    found = only(argo_status.steps(workflow(training, runs), ORDER), "train")
    assert (found.phase, found.detail) == (Phase.RUNNING, "6 000 of 12 000")


def test_why_a_step_failed_is_told() -> None:
    training = node(3, "w.train", phase="Failed", children=["w-4"], message="No more retries left")
    lost = node(4, "w.train(0)", "Pod", phase="Failed", message="main: Error (exit code 1): job w failed")
    found = only(argo_status.steps(workflow(training, lost), ORDER), "train")
    assert (found.phase, found.detail) == (Phase.FAILED, "main: Error (exit code 1): job w failed")


def test_of_a_step_that_was_lost_the_exit_code_is_told_and_not_its_log() -> None:
    training = node(3, "w.train", phase="Running", children=["w-4"])
    lost = node(4, "w.train(0)", "Pod", phase="Failed", message="main: Error (exit code 137): one\ntwo: 2\n")
    found = only(argo_status.steps(workflow(training, lost), ORDER), "train")
    assert found.detail == "main: Error (exit code 137)"


def test_a_step_within_a_step_is_told_with_its_place() -> None:
    inner = node(3, "w.both", "DAG", phase="Running")
    training = node(4, "w.both.train", "Pod", within="w-3", phase="Running")
    at_the_end = node(5, "w.onExit", "DAG", within="", phase="Running")
    cleaning = node(6, "w.onExit.clean-up", "Pod", within="w-5", phase="Running")
    found = argo_status.steps(workflow(inner, training, at_the_end, cleaning), ORDER)
    assert [step.name for step in found] == ["convert", "both/train", "evaluate", "clean-up"]


def test_results_are_values_last_words_and_places_but_no_logs() -> None:
    found = [*argo_status.results(workflow(CONVERTED, FIRST), {"w-2": "7 000 records converted"})]
    assert found == [
        "convert    records: 7000",
        "convert    7 000 records converted",
        "convert    dataset: s3://artifacts/n/w/dataset",
    ]


def test_a_workflow_has_ended_when_argo_says_so() -> None:
    assert argo_status.phase({}) == ""
    assert argo_status.phase(workflow(phase="Running")) == ""
    assert argo_status.phase(workflow(phase="Error")) == "Error"


def test_a_failed_workflow_is_explained_by_its_failed_steps_or_else_by_argo() -> None:
    why = "main: Error (exit code 1): there is no image x"
    building = node(
        3, "w.build", phase="Failed", children=["w-4"], outputs={"parameters": [{"name": "image"}]}
    )
    tried = node(4, "w.build(0)", "Pod", phase="Failed", message=why)
    failed = workflow(CONVERTED, FIRST, building, tried, phase="Failed", message="child 'w-3' failed")
    assert argo_status.reason(failed) == f"build: {why}"
    assert not [line for line in argo_status.results(failed, {}) if line.startswith("build")]
    late = workflow(CONVERTED, FIRST, phase="Failed", message="Max duration limit exceeded")
    assert argo_status.reason(late) == "Max duration limit exceeded"
    assert argo_status.reason(workflow(phase="Error")) == "error"
