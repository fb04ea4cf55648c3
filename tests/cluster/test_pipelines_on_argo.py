"""`python pipelines/mnist.py` where there is an Argo: submitted, followed, told of, and hit by losses.

And `own_image.py`, whose training runs in what a step before it has built.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.argo_pipelines import ROOT, PipelineRun
from tests.cluster.argo_steps import KINDS
from tests.cluster.kit import s3
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace

pytestmark = [pytest.mark.timeout(1800)]

PIPELINES = sorted(path for path in (ROOT / "pipelines").glob("[a-z]*.py") if path.stem != "command")
STOPPED_SECONDS = 240
KILLS = 5
PACE = 0.1  # a record: five minutes for both workers, longer than all the kills


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """By what tests start, also where they run in a shell's background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def store(cluster: Cluster) -> s3.Store:
    return s3.started(cluster)


@pytest.fixture
def ready(namespace: Namespace, store: s3.Store) -> Namespace:
    """Made so as `docs/argo.md` says, without the templates: the workflow brings its own."""
    store.configure(namespace)
    namespace.kubectl("apply", "-f", ROOT / "manifests" / "elasticdl-argo-rbac.yaml")
    return namespace


@pytest.fixture
def run(ready: Namespace, job_image: str, tmp_path: Path) -> Iterator[PipelineRun]:
    made = PipelineRun(ready, tmp_path / "job", job_image)
    yield made
    made.close()


def until(condition: Callable[[], Any], what: str, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)


@pytest.mark.parametrize("script", PIPELINES, ids=lambda path: path.stem)
def test_p6_argo_itself_finds_nothing_wrong_with_a_compiled_pipeline(
    cluster: Cluster, script: Path, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, str(script), "--engine=none"], cwd=tmp_path, timeout=600, check=True)
    linted = subprocess.run(
        [cluster.binaries["argo"], "lint", "--offline", *(tmp_path / "build").glob("*.argo.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "no linting errors found" in linted.stdout


def test_p1_the_pipeline_on_argo_is_followed_to_its_end_and_its_results_are_told(
    run: PipelineRun, store: s3.Store
) -> None:
    run.begin()  # no engine is named: Argo is the one that is there
    code = run.code()
    said, results = run.said(), run.results()
    assert code == 0, said + run.report()
    assert f"runs on Argo in namespace {run.namespace.name} of the cluster " in said
    for step in ("convert", "train", "evaluate", "clean-up"):
        # A short step may begin and end between two looks of Argo; the training and the evaluation are long.
        running = re.findall(rf"^{step} +running", said, re.M)
        assert running or step in {"convert", "clean-up"}, said
        assert len(re.findall(rf"^{step} +succeeded in ", said, re.M)) == 1, said
    place = f"{run.namespace.name}/{run.name}/"
    assert results["convert", "records"] == "7000"
    assert int(results["train", "steps"]) > 0
    assert float(results["train", "best_metric"]) > 0.5
    assert re.search(r"^evaluate +1.?000 records in .*accuracy 0\.\d+", run.out.read_text(), re.M)
    kept = store.keys(place)
    for step, name in (("train", "report"), ("train", "model"), ("evaluate", "report")):
        bucket, _, key = results[step, name].removeprefix("s3://").partition("/")
        assert bucket == s3.BUCKET
        assert any(each.startswith(key) for each in kept), f"{results[step, name]} is not in {kept}"
    assert re.search(rf"^{run.name} succeeded in ", run.out.read_text(), re.M)
    run.until_nothing_is_left(STOPPED_SECONDS)


def test_p9_a_training_step_killed_five_times_at_random_costs_no_record_and_leaves_nothing(
    run: PipelineRun,
) -> None:
    seed = int(os.environ.get("ELASTICDL_SEED") or random.SystemRandom().randrange(2**32))
    moments = random.Random(seed)
    run.pace(PACE)
    run.begin("--engine=argo", "--set=train.num_workers=2", "--param=num_epochs=1")
    for kill in range(KILLS):
        run.until(lambda attempt=kill: len(run.nodes("train")) > attempt, f"attempt {kill + 1} is made")
        run.until(lambda: phases(run)[-1:] == ["Running"], f"attempt {kill + 1} runs")
        time.sleep(moments.uniform(0, 10))
        while (seen := phases(run)) == [] or (len(seen) == kill + 1 and seen[-1] == "Running"):
            run.kill_step()  # again, if its process had not begun yet
            time.sleep(0.5)
    run.pace(0)
    assert run.code() == 0, f"seed {seed}\n{run.said()}\n{run.report()}"
    assert phases(run) == [*["Failed"] * KILLS, "Succeeded"], f"seed {seed}"
    done = dict(re.findall(r"epoch (\d+) of \d+ done: (\d+) records", run.log()))
    assert done == {"1": "6000"}, f"seed {seed}\n{run.report()}"
    assert f"job {run.name} succeeded: 6 000 records in 1 epoch" in run.log()
    assert re.search(rf"^train +waiting, .*attempt {KILLS}", run.said(), re.M), run.said()
    run.until_nothing_is_left(STOPPED_SECONDS)


def phases(run: PipelineRun) -> list[str]:
    """Of the attempts at the training; none also where the API server did not answer."""
    return [node["phase"] for node in run.nodes("train")]


def test_whoever_leaves_the_command_is_told_what_goes_on_and_how_to_end_it(run: PipelineRun) -> None:
    run.begin("--engine=argo")
    assert run.process is not None
    run.process.send_signal(signal.SIGINT)
    assert run.code(120) == 130
    advice = re.search(
        r"workflow (\S+) goes on without this command; `argo (stop \S+ -n \S+)` ends it", run.said()
    )
    assert advice, run.said()
    assert advice[1] == run.name
    assert run.phase() == ""
    cluster = run.namespace.cluster
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    subprocess.run([cluster.binaries["argo"], *advice[2].split()], env=environment, timeout=300, check=True)
    until(run.phase, "the workflow ends")
    run.until_nothing_is_left(STOPPED_SECONDS)


def test_a_pipeline_that_fails_says_why_and_fails_the_command(run: PipelineRun) -> None:
    run.begin("--engine=argo", "--set=train.loss=no_such_loss")
    assert run.code() == 1, run.said()
    assert re.search(r"^train +failed.*no_such_loss", run.said(), re.M), run.said()
    last = run.said().splitlines()[-1]
    assert last.startswith(f"error: workflow {run.name}: the pipeline failed: train: "), last
    assert "no_such_loss" in last
    assert run.results()["convert", "records"] == "7000"
    run.until_nothing_is_left(STOPPED_SECONDS)


def test_a_workflow_that_is_deleted_meanwhile_ends_the_command(run: PipelineRun) -> None:
    run.begin("--engine=argo")
    until(lambda: run.nodes("convert"), "the first step is made")
    run.delete()
    assert run.code(120) == 1
    assert f"workflow {run.name}: was deleted" in run.said()
    until(
        lambda: not run.namespace.get(KINDS, "-l", f"workflows.argoproj.io/workflow={run.name}")["items"],
        "gone",
    )


@pytest.fixture
def own_image(ready: Namespace, job_image: str, tmp_path: Path) -> Iterator[PipelineRun]:
    """Its model says where it is, and trains at the pace of the test; the image goes to the registry here."""
    made, registry = PipelineRun(ready, tmp_path / "job", job_image, "own_image"), ready.cluster.site.registry
    given = f"--param=image_name={job_image}"
    made.command[made.command.index(given)] = given.replace("image_name", "base_image")
    made.command += [
        f"--param=repository={registry}/team/digits",
        f"--param=insecure_registries={registry}",
        "--param=model_def=own.digits.custom_model",
    ]
    zoo = made.folder / "model_zoo"
    (zoo / "own").mkdir()
    model = (zoo / "mnist" / "mnist_functional_api.py").read_text()
    (zoo / "own" / "digits.py").write_text(
        f"{model}\nimport logging\n\nlogging.warning('I am %s', __file__)\n"
    )
    yield made
    made.close()


def images(run: PipelineRun) -> dict[str, str]:
    """What the pods of the workflow's steps run, and of its job, that have come so far."""
    pods = run.namespace.get("pods", "-l", f"workflows.argoproj.io/workflow={run.name}")["items"]
    begun = [pod for pod in pods if pod["status"]["phase"] != "Pending"]
    return {short(run, pod["metadata"]["name"]): image(pod["spec"]["containers"]) for pod in begun}


def short(run: PipelineRun, pod: str) -> str:
    """`worker-0` and `train`: without the names of job and workflow, and Argo's number."""
    return re.sub(r"-\d{5,}$", "", pod.rpartition(f"{run.name}-")[2])


def image(containers: list[Any]) -> str:
    """That of the container which does the work; others are Argo's own."""
    return str(next((each for each in containers if each["name"] == "main"), containers[0])["image"])


def test_p1_training_and_evaluation_run_in_the_image_that_a_step_has_built(
    own_image: PipelineRun, job_image: str
) -> None:
    run, job = own_image, {"worker-0", "ps-0"}
    run.pace(PACE)
    run.begin("--param=num_workers=1", "--param=num_epochs=1")
    run.until(lambda: job <= {*images(run)}, "a worker and a parameter server run")
    found = images(run)
    run.pace(0)
    assert run.code() == 0, run.said() + run.report()
    made = run.results()["build-image", "image"]
    assert re.search(r"/team/digits@sha256:[0-9a-f]{64}$", made)
    before, within = {"convert", "build-image", "clean-up"}, {"train", "evaluate", *job}
    expected = dict.fromkeys(before, job_image) | dict.fromkeys(within, made)
    assert found | images(run) == expected, run.report()
    assert re.search(r"worker-0 \|.* I am /model_zoo/own/digits\.py", run.log()), run.report()
    assert float(run.results()["train", "best_metric"]) > 0.5
    run.until_nothing_is_left(STOPPED_SECONDS)
