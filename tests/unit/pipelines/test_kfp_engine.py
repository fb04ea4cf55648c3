"""What KFP's client is asked to do, and what is told of its answers; its server itself is for the cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pipelines.command import main
from pipelines.engines import kfp, kfp_status
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
    """Answers as KFP's server does: its runs go through these states; a number is the status of a refusal."""

    def __init__(self, serve, *states: dict[str, Any] | int) -> None:
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

    def now(self) -> dict[str, Any] | int:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return state if isinstance(state, int) else {"run_id": "r1", **state}

    def knows(self, *nodes: dict[str, Any], logs: Mapping[str, str | dict[str, str]] | None = None) -> None:
        """That Argo's workflow of the run has these nodes, and pods these logs."""
        status = {"nodes": {each["id"]: each for each in nodes}}
        manifest = json.dumps({"metadata": {"name": "mnist-x"}, "status": status})
        told = {"pipeline_runtime": {"workflow_manifest": manifest}}
        self.server.answers["GET /apis/v1beta1/runs/r1"] = lambda _: told
        for pod, log in (logs or {}).items():
            self.server.answers[f"GET /apis/v1alpha1/runs/r1/nodes/{pod}/log"] = lambda _, log=log: log


@pytest.fixture
def backend(serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kfp, "_LOOK_SECONDS", 0.01)

    def of(*states: dict[str, Any] | int) -> Backend:
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


@pytest.mark.parametrize("is_known", [True, False])
def test_of_a_run_that_is_pending_without_a_workflow_it_is_said_once_that_it_may_be_lost(
    backend, capsys, monkeypatch, is_known
) -> None:
    monkeypatch.setattr(kfp, "_UNHEARD_SECONDS", 0.0)
    server = backend(*[{"state": "PENDING"}] * 3, {"state": "SUCCEEDED"})
    if is_known:
        server.knows()
    assert command() == 0
    assert capsys.readouterr().err.count("no workflow is known of run r1") == (0 if is_known else 1)


@pytest.mark.parametrize("state", ["FAILED", "CANCELED"])
def test_a_run_that_does_not_succeed_fails_the_command(backend, capsys, state) -> None:
    failed = task("train", "FAILED", error={"code": 2, "message": "the step said no"})
    backend({"state": state, "run_details": {"task_details": [failed]}})
    assert command() == 1
    said = capsys.readouterr().err
    assert "train        failed, the step said no" in said
    assert said.splitlines()[-1] == f"error: run r1: the pipeline failed: {state.lower()}"


def pod(task: str, phase: str, at: int, message: str = "", **inputs: str) -> dict[str, Any]:
    """A node of the workflow that KFP makes of a run."""
    given = [{"name": name.replace("_", "-"), "value": value} for name, value in inputs.items()]
    return {
        "id": f"mnist-x-{at}",
        "name": f"mnist-x.root.exit-handler-1.{task}",
        "type": "Pod",
        "templateName": "system-container-impl",
        "phase": phase,
        "message": message,
        "inputs": {"parameters": given},
        **({} if phase == "Pending" else {"finishedAt": f"2026-01-01T00:00:{at:02}Z"}),
    }


def test_why_a_step_failed_is_told_where_the_server_knows(backend, capsys) -> None:
    server = backend({"state": "FAILED", "run_details": {"task_details": [task("train", "FAILED")]}})
    pods = [
        pod("convert.executor(0)", "Failed", 0, "main: Error (exit code 1)"),
        pod("convert.executor(1)", "Succeeded", 1),
        pod("train.executor(1)", "Failed", 3, "main: Error (exit code 1): job mnist failed: records 0-9\n"),
        pod("train.executor(0)", "Failed", 2, "main: OOMKilled (exit code 137)"),
    ]
    server.knows(*pods, {**pods[1], "id": "group", "type": "Retry"})
    assert command() == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "error: run r1: the pipeline failed: train: job mnist failed: records 0-9"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([pod("train.executor(0)", "Pending", 1, "Unschedulable: 0/3 nodes")], "train        waiting"),
        (
            [
                pod("train.executor(0)", "Failed", 1, "main: Error (exit code 137)"),
                pod("train.executor(1)", "Pending", 2, "Unschedulable: 0/3 nodes"),
            ],
            "train        waiting",
        ),
        ([pod("evaluate-driver", "Pending", 1, "Unschedulable: 0/3 nodes")], "evaluate     waiting"),
        ([pod("group-2-driver", "Pending", 1, "Unschedulable: 0/3 nodes")], "evaluate     waiting"),
    ],
)
def test_why_a_pod_does_not_start_is_told_of_its_step(backend, capsys, nodes, said) -> None:
    tasks = {"run_details": {"task_details": TASKS}}
    server = backend({"state": "RUNNING", **tasks}, {"state": "SUCCEEDED", **tasks})
    server.knows(*nodes)
    assert command() == 0
    assert f"{said}, Unschedulable: 0/3 nodes\n" in capsys.readouterr().err


SAID = """\
[2026-01-01 00:00:08,000] [INFO] [job_outputs.py:47] job x succeeded: 94 steps
[2026-01-01 00:00:08,100] [INFO] [executor_main.py:100] Wrote executor output file to /tmp/x.
I0101 00:00:09.000000      26 launcher_v2.go:877] ExecutorOutput: {
  "parameterValues": {
    "steps": 94
  },
  "artifacts": {
    "metrics": {
      "artifacts": [
        {
          "name": "m",
          "uri": "minio://b/r1/train/metrics",
          "metadata": {
            "accuracy": 0.96875
          }
        }
      ]
    },
    "report": {
      "artifacts": [
        {
          "name": "r",
          "uri": "minio://b/r1/train/report",
          "metadata": {}
        }
      ]
    }
  }
}
I0101 00:00:09.000000      26 launcher_v2.go:153] publish success.
"""
TOLD = [
    "train      job x succeeded: 94 steps",
    "train      steps: 94",
    "train      metrics: minio://b/r1/train/metrics",
    "             accuracy 0.9688",
    "train      report: minio://b/r1/train/report",
]


def test_what_each_step_said_and_made_is_told_from_the_logs_that_the_server_has(backend, capsys) -> None:
    server = backend({"state": "SUCCEEDED"})
    server.knows(
        pod("train.executor(1)", "Succeeded", 9),
        pod("train.executor(0)", "Failed", 8, "main: OOMKilled (exit code 137)"),
        pod("train-driver", "Succeeded", 7),
        logs={f"mnist-x-system-container-impl-{number}": SAID for number in (7, 8, 9)},
    )
    assert command() == 0
    page = f"{server.server.address}/#/runs/details/r1"
    assert capsys.readouterr().out.splitlines()[:-1] == [*TOLD, f"metrics, report and model: {page}"]


@pytest.mark.parametrize(
    ("phase", "told"), [("Succeeded", ["train      model: minio://b/r1/train/model"]), ("Failed", [])]
)
def test_without_logs_the_places_of_what_a_step_made_are_told_as_they_were_planned(
    backend, capsys, phase, told
) -> None:
    made = {
        name: {"artifacts": [{"uri": f"minio://b/r1/train/{name}"}]} for name in ("model", "executor-logs")
    }
    words = ["launcher", "--executor_input", json.dumps({"outputs": {"artifacts": made}}), "--"]
    patch = json.dumps({"containers": [{"name": "main", "command": words}]})
    server = backend({"state": "SUCCEEDED"})
    error = {"error_message": "Failed to read logs", "error_details": "..."}  # which comes as a success
    server.knows(
        pod("train.executor", phase, 9, pod_spec_patch=patch), logs={"mnist-x-system-container-impl-9": error}
    )
    assert command() == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[:-2] == told
    assert "no logs of the steps can be had" in said.err


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "error: run r1: was deleted"),
        (401, "Kubeflow Pipelines answers 401 Unauthorized (the run goes on without this command: "),
        (403, "Kubeflow Pipelines answers 403 Forbidden (the run goes on without this command: "),
    ],
)
def test_a_definite_refusal_ends_the_following(backend, capsys, status, said) -> None:
    backend({"state": "RUNNING", "run_details": {"task_details": TASKS}}, status)
    assert command() == 1
    assert said in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_refusal_that_may_pass_is_waited_for(backend, capsys, status) -> None:
    backend({"state": "RUNNING"}, status, status, {"state": "SUCCEEDED"})
    assert command() == 0
    assert capsys.readouterr().err.count(": waiting for it") == 1


@pytest.mark.parametrize("user", [{}, {"token": "t"}])
def test_where_no_page_is_known_the_words_say_where_to_look_and_logs_are_the_clusters(
    serve, tmp_path, capsys, monkeypatch, user
) -> None:
    """This is how KFP is found by a kubeconfig. Its server cannot read logs where it has one user only."""
    pod, node = "mnist-x-impl-7", {"id": "mnist-x-7", "name": "mnist-x.root.convert.executor", "type": "Pod"}
    node |= {"phase": "Succeeded", "templateName": "impl", "finishedAt": "2026-01-01T00:00:00Z"}
    about = {"name": "mnist-x", "namespace": "kubeflow"}
    ran = json.dumps({"metadata": about, "status": {"nodes": {"mnist-x-7": node}}})
    home = "/api/v1/namespaces/kubeflow/services/ml-pipeline"
    place = f"{home}:http/proxy" + ("" if user else "/")  # with a certificate the client writes both slashes
    server = serve(
        {
            f"GET {home}": lambda _: {"metadata": {"name": "ml-pipeline"}},
            f"GET {place}/apis/v2beta1/healthz": lambda _: {"multi_user": False},
            f"GET {place}/apis/v2beta1/experiments": lambda _: {"experiments": [{"experiment_id": "e"}]},
            f"POST {place}/apis/v2beta1/runs": lambda _: {"run_id": "r1", "state": "PENDING"},
            f"GET {place}/apis/v2beta1/runs/r1": lambda _: {"run_id": "r1", "state": "SUCCEEDED"},
            f"GET {place}/apis/v1beta1/runs/r1": lambda _: {"pipeline_runtime": {"workflow_manifest": ran}},
            f"GET {place}/apis/v1alpha1/runs/r1/nodes/{pod}/log": lambda _: "",
            f"GET /api/v1/namespaces/kubeflow/pods/{pod}/log": lambda _: "3 rows are converted\n",
            "GET /apis/argoproj.io/v1alpha1": lambda _: {"resources": []},
        }
    )
    known = str(server.kubeconfig(tmp_path / "kubeconfig", user=user))
    monkeypatch.setenv("KUBECONFIG", known)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", known)
    assert command("--engine=kfp") == 0
    said = capsys.readouterr()
    place = (
        "r1 among the runs on the page of Kubeflow Pipelines, whose address KF_PIPELINES_UI_ENDPOINT can name"
    )
    assert f"run r1 is started: {place}" in said.err
    assert said.out.splitlines()[:2] == [
        "convert    3 rows are converted",
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


LAUNCHER = "I1119 23:37:19.714130      15 launcher_v2.go"
CUT = f"""{{
    "inputs": {{}}
}}
[2026-11-19 23:37:19,600] [INFO] [evaluate.py:51:evaluate] 1 000 records in 1.6 s: accuracy 0.991
{LAUNCHER}:877] ExecutorOutput: {{
  "artifacts": {{
    "confidenceThreshold": 0
{LAUNCHER}:181] publish success.
"""


def test_of_what_kfp_writes_into_a_log_only_in_part_nothing_is_taken_for_a_steps_words() -> None:
    node = {"id": "m-1", "name": "m.root.evaluate.executor", "type": "Pod", "templateName": "impl"}
    workflow = {"metadata": {"name": "m"}, "status": {"nodes": {"m-1": node}}}
    [pod] = kfp_status.pods(workflow)
    told = list(kfp_status.results(workflow, {pod: CUT.splitlines()}))
    assert told == ["evaluate   1 000 records in 1.6 s: accuracy 0.991"]
