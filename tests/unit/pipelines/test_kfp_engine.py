"""What KFP's client is asked to do, and what is told of its answers; its server itself is for the cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines.command import main
from pipelines.engines import kfp
from pipelines.mnist import mnist, mnist_on_argo

STARTED = "2026-01-01T00:00:00Z"


def task(name: str, state: str, **more: Any) -> dict[str, Any]:
    return {
        "display_name": name,
        "state": state,
        "start_time": STARTED,
        "end_time": "1970-01-01T00:00:00Z",
        **more,
    }


TASKS = [
    task("root-driver", "SUCCEEDED"),
    task("convert", "SUCCEEDED", end_time="2026-01-01T00:00:07Z"),
    task("train", "RUNNING"),
]


class Backend:
    """Answers as KFP's server does: its runs go through these states."""

    def __init__(self, serve, *states: dict[str, Any]) -> None:
        self.states, self.given = [*states], dict[str, Any]()
        default = {"experiment_id": "e", "display_name": "Default"}
        self.server = serve(
            {
                "GET /apis/v2beta1/healthz": lambda _: {"multi_user": False},
                "GET /apis/v2beta1/experiments": lambda _: {"experiments": [default]},
                "POST /apis/v2beta1/runs": self.start,
                "GET /apis/v2beta1/runs/r1": lambda _: self.now(),
            }
        )

    def start(self, body: dict[str, Any]) -> dict[str, Any]:
        self.given = body
        return {"run_id": "r1", "state": "PENDING"}

    def now(self) -> dict[str, Any]:
        return {"run_id": "r1", **(self.states.pop(0) if len(self.states) > 1 else self.states[0])}


@pytest.fixture
def backend(serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kfp, "_LOOK_SECONDS", 0.01)

    def of(*states: dict[str, Any]) -> Backend:
        made = Backend(serve, *states)
        monkeypatch.setenv("KF_PIPELINES_ENDPOINT", made.server.address)
        return made

    return of


def command(*words: str) -> int:
    return main(mnist, argo=mnist_on_argo, argv=words)


def test_a_run_is_started_with_what_was_set_and_followed_to_its_end(backend, capsys) -> None:
    server = backend(
        {"state": "PENDING"},
        {"state": "RUNNING", "run_details": {"task_details": TASKS}},
        {"state": "SUCCEEDED", "run_details": {"task_details": TASKS}},
    )
    assert command("--set=train.num_workers=4", "--param=num_epochs=3") == 0
    assert server.given["runtime_config"]["parameters"] == {"num_epochs": 3}
    spec = json.dumps(server.given["pipeline_spec"])
    assert '"num_workers": {"runtimeValue": {"constant": 4' in spec
    said = capsys.readouterr()
    page = f"{server.server.address}/#/runs/details/r1"
    assert f"run r1 is started: {page}" in said.err
    assert "convert      succeeded in 7 s\ntrain        running\n" in said.err
    assert "driver" not in said.err
    assert said.out.splitlines()[0] == f"metrics, report and model: {page}"
    assert said.out.splitlines()[1].startswith("mnist succeeded in ")


@pytest.mark.parametrize("state", ["FAILED", "CANCELED"])
def test_a_run_that_does_not_succeed_fails_the_command(backend, capsys, state) -> None:
    failed = task("train", "FAILED", error={"code": 2, "message": "the step said no"})
    backend({"state": state, "run_details": {"task_details": [failed]}})
    assert command() == 1
    said = capsys.readouterr().err
    assert "train        failed, the step said no" in said
    assert said.splitlines()[-1] == f"error: run r1: the pipeline failed: {state.lower()}"


def pod(task: str, phase: str, at: int, message: str) -> dict[str, Any]:
    """A node of the workflow that KFP makes of a run."""
    return {
        "name": f"mnist-x.root.exit-handler-1.{task}",
        "type": "Pod",
        "phase": phase,
        "finishedAt": f"2026-01-01T00:00:{at:02}Z",
        "message": message,
    }


def test_why_a_step_failed_is_told_where_the_server_knows(backend, capsys) -> None:
    server = backend({"state": "FAILED", "run_details": {"task_details": [task("train", "FAILED")]}})
    pods = [
        pod("convert.executor(0)", "Failed", 0, "main: Error (exit code 1)"),
        pod("convert.executor(1)", "Succeeded", 1, ""),
        pod("train.executor(1)", "Failed", 3, "main: Error (exit code 1): job mnist failed: records 0-9\n"),
        pod("train.executor(0)", "Failed", 2, "main: OOMKilled (exit code 137)"),
    ]
    nodes = {each["name"]: each for each in pods} | {"group": {**pods[1], "type": "Retry"}}
    runtime = {"workflow_manifest": json.dumps({"status": {"nodes": nodes}})}
    server.server.answers["GET /apis/v1beta1/runs/r1"] = lambda _: {"pipeline_runtime": runtime}
    assert command() == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "error: run r1: the pipeline failed: train: job mnist failed: records 0-9"


def test_where_no_page_is_known_the_words_say_where_to_look_and_pods_what_steps_said(
    serve, tmp_path, capsys, monkeypatch
) -> None:
    pods = {
        "a": pod("evaluate.executor(1)", "Succeeded", 9, ""),
        "b": pod("evaluate.executor(0)", "Failed", 8, "main: OOMKilled (exit code 137)"),
        "c": pod("evaluate-driver", "Succeeded", 7, ""),
    }
    workflow = {
        "metadata": {"name": "mnist-x", "namespace": "team"},
        "status": {"nodes": {number: {**each, "id": number} for number, each in pods.items()}},
    }
    made = [
        {"metadata": {"name": f"pod-{number}", "annotations": {"workflows.argoproj.io/node-id": number}}}
        for number in pods
    ]
    home = "/api/v1/namespaces/kubeflow/services/ml-pipeline"
    runs = f"GET {home}:http/proxy//apis/v2beta1/runs/r1"  # the client writes both slashes
    log = "\n".join(
        [
            "[2026-01-01 00:00:08,000] [INFO] [evaluate.py:47] 1000 records in 2.0 s: accuracy 0.97",
            "[2026-01-01 00:00:08,100] [INFO] [executor_main.py:100] Wrote executor output file to /tmp/x.",
            "I0101 00:00:09.000000      26 launcher_v2.go:153] publish success.",
        ]
    )
    server = serve(
        {
            f"GET {home}": lambda _: {"metadata": {"name": "ml-pipeline"}},
            f"GET {home}:http/proxy//apis/v2beta1/healthz": lambda _: {"multi_user": False},
            f"GET {home}:http/proxy//apis/v2beta1/experiments": lambda _: {
                "experiments": [{"experiment_id": "e"}]
            },
            f"POST {home}:http/proxy//apis/v2beta1/runs": lambda _: {"run_id": "r1", "state": "PENDING"},
            runs: lambda _: {"run_id": "r1", "state": "SUCCEEDED"},
            runs.replace("v2beta1", "v1beta1"): lambda _: {
                "pipeline_runtime": {"workflow_manifest": json.dumps(workflow)}
            },
            "GET /api/v1/namespaces/team/pods": lambda _: {"items": made},
            "GET /apis/argoproj.io/v1alpha1": lambda _: {"resources": []},
            **{f"GET /api/v1/namespaces/team/pods/pod-{number}/log": lambda _: log for number in pods},
        }
    )
    known = str(
        server.kubeconfig(tmp_path / "kubeconfig", user={})
    )  # for a token KFP's client forgets the proxy
    monkeypatch.setenv("KUBECONFIG", known)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", known)
    assert command("--engine=kfp") == 0
    said = capsys.readouterr()
    place = (
        "r1 among the runs on the page of Kubeflow Pipelines, whose address KF_PIPELINES_UI_ENDPOINT can name"
    )
    assert f"run r1 is started: {place}" in said.err
    assert said.out.splitlines()[:2] == [
        "evaluate   1000 records in 2.0 s: accuracy 0.97",
        f"metrics, report and model: {place}",
    ]


def test_a_server_that_refuses_is_one_line(backend, capsys) -> None:
    server = backend({"state": "RUNNING"})
    del server.server.answers["POST /apis/v2beta1/runs"]
    assert command() == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"error: {server.server.address}: Kubeflow Pipelines answers 404 Not Found"


def test_an_endpoint_where_nobody_listens_is_one_line(backend, capsys) -> None:
    server = backend({"state": "RUNNING"})
    server.server.close()
    assert command("--engine=kfp") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"error: {server.server.address}: Kubeflow Pipelines cannot be reached: ")
    assert "KF_PIPELINES_ENDPOINT" in last


def test_whoever_leaves_the_command_is_told_that_the_run_goes_on(backend, capsys, monkeypatch) -> None:
    server = backend({"state": "RUNNING"})

    def leave(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kfp.time, "sleep", leave)
    assert command() == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("run r1 goes on without this command; ")
    assert server.server.address in said
