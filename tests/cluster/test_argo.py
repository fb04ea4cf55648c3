"""Argo's own controller runs our steps, from the manifests alone, with the images users get.

What workflows go through is done to real ones: what is left is counted through the API, what was trained is
read from the step's log and its artifacts. The P of a name is the number of what is promised.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from elastic_runtime.data.mnist import convert_mnist, sample
from tests.cluster.argo_steps import FOLDER, StepRun
from tests.cluster.kit import faults, s3
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace

pytestmark = [pytest.mark.timeout(1800)]

MANIFESTS = Path(__file__).parents[2] / "manifests"
TEMPLATES = sorted((MANIFESTS / "argo").glob("*.yaml"))
EVERYWHERE = sorted((MANIFESTS / "argo" / "cluster").glob("*.yaml"))
WITHOUT_PYTHON = MANIFESTS.parent / "pipelines" / "mnist_argo_templates.yaml"
STOPPED_SECONDS = 240  # less than after what pods without a master end themselves
SAID_SECONDS = 120  # seconds, where there is nothing else to do; here the machine may be busy with anything
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
OFTEN = {"name": "ARGO_PROGRESS_PATCH_TICK_DURATION", "value": "1s"}  # Argo looks once a minute
MakeRun = Callable[..., StepRun]

MOMENTS = ("pending", "training", "evaluating")
PACE = 0.6  # a record: an epoch takes longer than what is done to it
ENDS = ("stop", "terminate", "deadline", "delete", "kfp")
JUDGED_SLOWLY = """
import os

from tiny import _delayed, custom_model, eval_metrics_fn, loss, optimizer, parse


def feed(dataset, mode, metadata):
    if mode == "evaluation":
        dataset = dataset.map(lambda record: _delayed(record, os.environ["TINY_PACE"]))
    return dataset.map(lambda record: parse(record, mode))
"""
BACK = {
    "pending": r"goes on where it was left: 0 records done",
    "training": r"goes on where it was left: [1-9]\d* records done(.*worker \S+ (is back|joined)){2}",
    "evaluating": r"goes on where it was left: 1200 records done.*is back",
}
"""What the next attempt says. A worker that had not begun yet when the step was lost joins."""


@pytest.fixture(scope="module")
def store(cluster: Cluster) -> s3.Store:
    return s3.started(cluster)


@pytest.fixture
def steps(namespace: Namespace, store: s3.Store) -> Namespace:
    """A namespace made ready as `docs/argo.md` says."""
    store.configure(namespace)
    namespace.kubectl("apply", "-f", MANIFESTS / "elasticdl-argo-rbac.yaml")
    namespace.kubectl("apply", "-f", MANIFESTS / "argo")
    return namespace


@pytest.fixture
def make_run(steps: Namespace, job_image: str, tmp_path: Path) -> Iterator[MakeRun]:
    def make(name: str = "w", **parameters: object) -> StepRun:
        return StepRun(steps, tmp_path / name, job_image, name=name, **parameters)

    return make


@pytest.fixture
def everywhere(cluster: Cluster) -> Iterator[None]:
    """The templates of the whole cluster, as long as the test lasts."""
    folder = MANIFESTS / "argo" / "cluster"
    cluster.kubectl("apply", "-f", folder)
    try:
        yield
    finally:
        cluster.kubectl("delete", "-f", folder, "--ignore-not-found")


def converting(run: StepRun, **parameters: object) -> StepRun:
    """Another workflow of the same name: nothing but one conversion of the sample that comes with us."""
    given = {**run.common, "format": "mnist", **parameters}
    run.spec["templates"][0]["dag"]["tasks"] = [run.task("data", "convert", given)]
    return run


def held(make_run: MakeRun, moment: str, name: str = "", workers: int = 1) -> StepRun:
    """A workflow whose training comes to this moment, and stays there until it is let go."""
    name = name or moment
    given: dict[str, object] = {"num_workers": workers}
    match moment:
        case "pending":
            given["node_selector"] = f"kit/{uuid.uuid4().hex}=come"  # no node has that
        case "training":
            given |= {"num_epochs": 2, "checkpoint_steps": 1, "checkpoint_dir": f"{FOLDER}/checkpoints"}
        case "evaluating":
            given |= {"validation_data": f"{FOLDER}/data", "model_def": "judged_slowly.custom_model"}
    run = make_run(name, **given)
    (run.folder / "zoo" / "judged_slowly.py").write_text(JUDGED_SLOWLY)
    run.pace(PACE)
    return run


def until_it_is_there(run: StepRun, moment: str, workers: int = 1) -> None:
    match moment:
        case "pending":
            run.until(lambda: {"ps-0", "worker-0"} <= {*run.pods()}, "the pods are asked for")
        case "training":
            run.until_training(workers)
        case "evaluating":
            run.until_said(r"epoch 1 of 1 done")


def let_go(run: StepRun) -> None:
    run.pace(0)
    if awaited := run.parameters.get("node_selector"):
        run.namespace.cluster.kubectl("label", "nodes", "--all", awaited)


def end(run: StepRun, how: str) -> None:
    match how:
        case "stop" | "terminate":
            run.shut_down(how.title())
        case "deadline":
            run.end_after(1)
        case "delete":
            run.delete()
        case "kfp":
            run.end_after(0)


def attempts(run: StepRun) -> list[str]:
    return [node["phase"] for node in run.nodes("train")]


def uids(run: StepRun) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in run.pods().items()}


def assert_what_was_reached_is_kept(run: StepRun, store: s3.Store) -> None:
    """Argo has it, no less than the log has said before the step was told to end; and the log says where."""
    (step,) = run.nodes("train")
    place = f"{run.namespace.name}/{run.name}/{run.pod_of(step)}"
    reached = re.findall(r"epoch \d+ of \d+, ([\d ]+) of", run.log())
    metrics = json.loads(store.read(f"{place}/metrics.json"))
    assert metrics["records"] >= max(int(each.replace(" ", "")) for each in reached) > 0, run.report()
    assert "| worker-0 | " in store.read(f"{place}/pods.md").decode()
    assert "<svg" in store.read(f"{place}/report.html").decode()
    assert "its report is the step's output report, /elasticdl/outputs/report.html" in run.log()
    assert f"error: the step was told to end: job {run.name} stopped: " in run.log()


def assert_each_record_is_done_once(run: StepRun, epochs: int = 1) -> None:
    """By the ledger, as the last attempt tells; what those said whose pods are gone is gone with them."""
    done = re.findall(r"epoch (\d+) of \d+ done: (\d+) records", run.log())
    assert len(done) == len({*done}), run.report()
    assert {*done} <= {(str(epoch + 1), "1200") for epoch in range(epochs)}, run.report()
    records = f"{1200 * epochs:,}".replace(",", " ")
    assert re.search(rf"job {run.name} succeeded: {records} records in {epochs} epoch", run.log()), (
        run.report()
    )


@pytest.mark.parametrize(
    "files",
    [TEMPLATES, EVERYWHERE, [*TEMPLATES, WITHOUT_PYTHON]],
    ids=["namespaced", "cluster", "a pipeline of them"],
)
def test_p6_argo_itself_finds_nothing_wrong_with_the_manifests(cluster: Cluster, files: list[Path]) -> None:
    linted = subprocess.run(
        [cluster.binaries["argo"], "lint", "--offline", *files], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "no linting errors found" in linted.stdout


def test_p6_argo_refuses_a_field_that_it_does_not_have(cluster: Cluster, tmp_path: Path) -> None:
    """So the test above can fail."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(TEMPLATES[0].read_text().replace("retryStrategy:", "retryStrategies:"))
    linted = subprocess.run(
        [cluster.binaries["argo"], "lint", "--offline", wrong], capture_output=True, text=True, check=False
    )
    assert linted.returncode != 0
    assert "retryStrategies" in linted.stdout + linted.stderr


def test_p6_a_template_of_the_whole_cluster_runs_in_a_namespace_that_has_none(
    make_run, everywhere: None
) -> None:
    run = converting(make_run())
    run.namespace.kubectl("delete", "-f", MANIFESTS / "argo")
    run.spec["templates"][0]["dag"]["tasks"][0]["templateRef"]["clusterScope"] = True
    assert run.submit().ends() == "Succeeded", run.report()
    (step,) = run.nodes("data")
    given = {each["name"]: each["value"] for each in step["outputs"]["parameters"]}
    assert given == {"records": "7000"}


def test_a_volume_or_a_resource_that_cannot_be_is_refused_once_and_nothing_runs(make_run) -> None:
    wrong = {
        "key": ({"volume": "claim=data,mount_path=/data"}, '"volume-0 knows no claim"'),
        "claim": ({"volume": "mount_path=/data"}, "hostPath.path: Required value"),
        "place": ({"volume": "claim_name=data"}, "mountPath: Required value"),
        "resource": ({"step_resource_request": "cpus=1"}, '"cpus"'),
        "amount": ({"step_resource_request": "cpu=much"}, "Error applying PodSpecPatch"),
    }
    runs = {name: converting(make_run(name), **given).submit() for name, (given, _) in wrong.items()}
    for name, run in runs.items():
        assert run.ends() in ("Error", "Failed"), run.report()
        (step,) = run.nodes("data")
        assert wrong[name][1] in step["message"]
        assert run.step_uids() == set()


def test_a_step_pulls_its_image_by_the_policy_that_it_is_given(make_run) -> None:
    """No node has a device: the pods wait, and can be looked at."""
    for policy, shown in {"": "IfNotPresent", "Always": "Always"}.items():
        asked = {"image_pull_policy": policy, "step_resource_request": "gpu=1"}
        run = converting(make_run(f"pull-{shown.lower()}"), **asked).submit()
        name = run.until(lambda run=run: run.step_uids() and run.step_pod(), "the pod is there")
        containers = run.namespace.get("pod", name)["spec"]["containers"]
        assert [each["imagePullPolicy"] for each in containers if each["name"] == "main"] == [shown]
        run.delete()


def test_resources_of_a_step_are_named_as_those_of_a_jobs_pods(make_run) -> None:
    """No node of these has a device: the pod waits, and says what for."""
    asked = {"step_resource_request": "cpu=50m, memory=262144K,disk=1Mi,gpu=1"}
    run = converting(make_run(), **asked).submit()
    name = run.until(lambda: run.step_uids() and run.step_pod(), "the pod is there")
    containers = run.namespace.get("pod", name)["spec"]["containers"]
    assert [each["name"] for each in containers] == ["main", "wait"]  # the latter looks once a second
    (main,) = (each["resources"] for each in containers if each["name"] == "main")
    given = {"cpu": "50m", "memory": "262144k", "ephemeral-storage": "1Mi", "nvidia.com/gpu": "1"}
    assert main == {"requests": given, "limits": {"nvidia.com/gpu": "1"}}
    run.delete()


def test_p14_the_pipeline_from_the_templates_alone_leaves_its_results_and_nothing_else(
    make_run, store
) -> None:
    run = make_run()
    run.bring(MANIFESTS.parent / "model_zoo")
    run.spec = yaml.safe_load(WITHOUT_PYTHON.read_text())["spec"]
    places = {"folder": FOLDER, "model_zoo": f"{FOLDER}/model_zoo"}
    for parameter in run.spec["arguments"]["parameters"]:
        parameter |= {"value": {**run.common, **places}.get(parameter["name"], parameter["value"])}
    run.spec["podSpecPatch"] = json.dumps({"containers": [{"name": "wait", "env": [OFTEN]}]})
    run.submit()
    pod = run.until(lambda: run.pods().get("worker-0"), "a worker is there")
    assert pod["metadata"]["labels"]["workflows.argoproj.io/workflow"] == "w"  # `argo logs w` selects by it,
    assert pod["spec"]["containers"][0]["name"] == "main"  # and shows the container of this name
    assert run.ends(800) == "Succeeded", run.report()
    assert run.records() == 12000
    assert re.search(r"^worker-\d \| Loss = ", run.log(), re.MULTILINE)  # its pods' lines, in the step's log
    run.until_nothing_is_left(STOPPED_SECONDS)
    place = f"{run.namespace.name}/w"
    made = {name.rpartition("/")[2] for name in store.keys(f"{place}/")}
    assert {"report.html", "pods.md", "metrics.json", "samples.md", "model.keras"} <= made
    (step,) = run.nodes("train")
    given = {each["name"]: each["value"] for each in step["outputs"]["parameters"]}
    metrics = json.loads(store.read(f"{place}/{run.pod_of(step)}/metrics.json"))
    assert int(given["steps"]) == metrics["steps"] > 0
    assert float(given["best_metric"]) >= metrics["accuracy"] > 0.7
    (evaluated,) = run.nodes("evaluate")
    scores = json.loads(store.read(f"{place}/{run.pod_of(evaluated)}/metrics.json"))
    assert scores["accuracy"] == pytest.approx(metrics["accuracy"], abs=0.01)


def test_p9_a_step_lost_at_any_moment_goes_on_with_its_pods_and_every_record_is_done_once(make_run) -> None:
    workers = {"pending": 1, "training": 2, "evaluating": 1}
    runs = {moment: held(make_run, moment, workers=workers[moment]).cleaned_up() for moment in MOMENTS}
    for run in runs.values():
        run.submit()
    for moment, run in runs.items():
        until_it_is_there(run, moment, workers[moment])
    before = {moment: uids(run) for moment, run in runs.items()}
    losses = (lambda run: run.delete_step(grace=1), StepRun.delete_step, StepRun.kill_step)
    for lose in losses:
        lost = {moment: run.step_uids() for moment, run in runs.items()}
        for run in runs.values():
            lose(run)
        for moment, run in runs.items():
            run.until_again(lost[moment], BACK[moment])
    assert {moment: uids(run) for moment, run in runs.items()} == before
    for run in runs.values():
        let_go(run)
    for moment, run in runs.items():
        assert run.ends() == "Succeeded", run.report()
        *earlier, last = attempts(run)
        assert {*earlier} <= {"Error", "Failed"}  # whether a deleted pod's end or its absence is seen first
        assert last == "Succeeded"
        assert_each_record_is_done_once(run, epochs=2 if moment == "training" else 1)
    assert runs["evaluating"].log().count("Evaluation metrics[v=") == 1
    for run in runs.values():
        run.until_nothing_is_left(STOPPED_SECONDS)


@pytest.mark.parametrize("moment", MOMENTS)
def test_p10_p11_a_workflow_that_is_ended_at_any_moment_leaves_nothing_but_what_it_has_reached(
    make_run, store, moment: str
) -> None:
    """Only that of KFP's kind has an exit handler: "Terminate" and a deletion would not run it.

    KFP ends a workflow by its deadline and gives its steps one second; then there is the exit handler.
    """
    runs = {how: held(make_run, moment, how) for how in ENDS}
    runs["kfp"].cleaned_up().spec["podSpecPatch"] = json.dumps({"terminationGracePeriodSeconds": 1})
    for run in runs.values():
        run.submit()
    for run in runs.values():
        until_it_is_there(run, moment)
    for how, run in runs.items():
        end(run, how)
        if moment == "training":  # each has all of its 30 s of grace, however busy the machine is
            run.until_nothing_is_left(STOPPED_SECONDS)
    for how, run in runs.items():
        run.until_nothing_is_left(STOPPED_SECONDS)
        assert how == "delete" or run.ends() == "Failed", run.report()
        if moment == "training" and how in ("stop", "terminate", "deadline"):
            assert_what_was_reached_is_kept(run, store)


def test_p10_steps_of_a_lost_node_are_run_again_once_the_cluster_gives_the_node_up(make_run, cluster) -> None:
    node = cluster.nodes[0].name
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    runs = {moment: held(make_run, moment).cleaned_up() for moment in MOMENTS}
    for run in runs.values():
        wanted = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": here}]}
        run.spec["affinity"] = {"nodeAffinity": wanted}
        run.submit()
    for moment, run in runs.items():
        until_it_is_there(run, moment)
        assert run.namespace.get("pod", run.step_pod())["spec"]["nodeName"] == node
    lost = {moment: run.step_uids() for moment, run in runs.items()}
    with faults.lost(cluster, node):
        cluster.wait("--for=condition=Ready=Unknown", f"node/{node}")
        with faults.tainted(cluster, node, OUT_OF_SERVICE):  # as clouds do, and otherwise its administrator
            for moment, run in runs.items():
                run.until_again(lost[moment], r"goes on where it was left: \d+ records done")
            for run in runs.values():
                let_go(run)
            for moment, run in runs.items():
                assert run.ends() == "Succeeded", run.report()
                assert_each_record_is_done_once(run, epochs=2 if moment == "training" else 1)
    for run in runs.values():
        run.until_nothing_is_left(STOPPED_SECONDS)


@pytest.mark.parametrize("defaults", [{}, {"limit": 2, "retryPolicy": "OnError"}], ids=["plain", "as KFP's"])
def test_p15_p16_a_job_that_fails_is_not_repeated_and_its_reason_and_report_are_there(
    make_run, store, defaults
) -> None:
    run = make_run(loss="broken").cleaned_up()
    model = run.folder / "zoo" / "tiny.py"
    model.write_text(model.read_text() + "\n\ndef broken(*_):\n    raise ValueError('this loss is broken')\n")
    run.spec["templateDefaults"] = {"retryStrategy": defaults} if defaults else {}
    assert run.submit().ends() == "Failed"
    assert attempts(run) == ["Failed"]
    (step,) = run.nodes("train")
    assert "ValueError: this loss is broken" in step["message"]
    assert step["message"].startswith("main: Error (exit code 1): job w failed: ")
    names = {name.rpartition("/")[2] for name in store.keys(f"{run.namespace.name}/w/")}
    assert {"report.html", "pods.md", "metrics.json"} <= names
    run.until_nothing_is_left(STOPPED_SECONDS)


def test_an_option_that_is_wrong_is_said_and_starts_nothing(make_run) -> None:
    run = make_run(loss="no_such_loss").submit()
    assert run.ends() == "Failed"
    (step,) = run.nodes("train")
    assert "exit code 2" in step["message"]
    assert "no_such_loss" in step["message"]
    run.until_nothing_is_left(STOPPED_SECONDS)


def test_p13_why_a_worker_does_not_run_is_said_within_seconds(make_run, cluster) -> None:
    image, size = "127.0.0.1:1/no/such:image", ("worker_resource_request", "worker_resource_limit")
    given = {
        "image": {"worker_image": image},
        "room": dict.fromkeys(size, "cpu=900,memory=1Gi"),
        "memory": dict.fromkeys(size, "memory=150Mi"),  # less than TensorFlow alone takes
        "urgent": {},
    }
    runs = {name: make_run(name, num_workers=1, **options) for name, options in given.items()}
    runs["urgent"].pace(0.05)
    runs["memory"].cleaned_up()  # a job that has failed could be gone on with, and keeps what that takes
    for run in runs.values():
        run.submit()
    made = {name: runs[name].until_made("worker-0") for name in ("image", "room")}
    why = {
        "image": rf"waits: the image {image} cannot be pulled: ",
        "room": r"waits: no node can take it: 0/3 nodes are available: .*\b3 Insufficient cpu",
    }
    for name, words in why.items():
        told = runs[name].until_told(rf"pod elasticdl-{name}-worker-0 {words}")
        assert told - made[name] < SAID_SECONDS, runs[name].report()

    urgent = runs["urgent"]
    urgent.until_said("worker elasticdl-urgent-worker-0 joined")
    now = time.time()
    faults.evict(cluster, "elasticdl-urgent-worker-0", namespace=urgent.namespace.name)
    told = urgent.until_told(r"pod elasticdl-urgent-worker-0 ended: preempted \(evicted")
    assert told - now < SAID_SECONDS, urgent.report()
    urgent.until_said("starting elasticdl-urgent-worker-1 in place of one that")

    memory = runs["memory"]
    remedy = "give it more by --worker_resource_limit, or make --minibatch_size smaller"
    memory.until_said(r"worker-0 ended: out_of_memory \(killed for memory: its limit is 150Mi\)")
    memory.until_said(rf"elasticdl-memory-worker-0 ran out of memory: {remedy}")
    memory.until_said("starting elasticdl-memory-worker-1 in place of one that ran out of memory")
    assert memory.ends() == "Failed"
    (step,) = memory.nodes("train")
    assert f"ran out of memory: killed for memory: its limit is 150Mi ({remedy}; 3 of 3 " in step["message"]
    for run in runs.values():
        run.shut_down("Terminate")
    for run in runs.values():
        run.until_nothing_is_left(STOPPED_SECONDS)


def test_the_commands_of_the_page_do_what_it_says(steps, cluster, job_image, tmp_path) -> None:
    page = (MANIFESTS.parent / "docs" / "argo.md").read_text()
    commands = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[1]
    run = StepRun(steps, tmp_path / "job", job_image, name="digits")
    run.bring(MANIFESTS.parent / "model_zoo")
    convert_mnist(str(run.folder / "mnist"), sample())
    own = {name: run.parameters[name] for name in run.parameters if "resource" in name or "policy" in name}
    typed = (
        commands.replace("registry.example/team/digits:1", job_image)
        .replace("volume=claim_name=data,mount_path=/data", f"volume={run.common['volume']}")
        .replace("/data/mnist", f"{FOLDER}/mnist")
        .replace("model_zoo=/model_zoo", f"model_zoo={FOLDER}/model_zoo")
        .replace("num_workers=4", " -p ".join(["num_workers=2", *(f"{k}={v}" for k, v in own.items())]))
    )
    own_config = shutil.copy(cluster.kubeconfig, tmp_path / "kubeconfig")
    environment = {
        **os.environ,
        "KUBECONFIG": str(own_config),
        "PATH": f"{cluster.binaries.folder}:{os.environ['PATH']}",
    }
    words = ["sh", "-exc", f"kubectl config set-context --current --namespace={steps.name}\n{typed}"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "job digits succeeded: 6 000 records" in done.stdout
    assert "elasticdl-digits-worker-0: " in done.stdout
    run.until_nothing_is_left(STOPPED_SECONDS)
