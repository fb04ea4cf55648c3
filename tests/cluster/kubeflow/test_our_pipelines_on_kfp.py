"""The pipelines that come with this, started on Kubeflow Pipelines by their own commands, so that its own
compiler takes them (P7), and the pages that they leave there, looked at.
"""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.steps.job_name import job_name
from pipelines.sweep import TRAININGS
from tests.cluster.jobs import LIMIT, RESOURCES
from tests.cluster.kit import kfp, requirements
from tests.cluster.kubeflow.ended import Ended, connected
from tests.cluster.kubeflow.runs import PIPELINE_SECONDS
from tests.cluster.kubeflow.surroundings import by_token, granted
from tests.cluster.kubeflow.trainings import left_of
from tests.looks import browser as looks
from tests.looks.browser import Browser
from tests.looks.pages import framed, markdown
from tests.looks.test_pages import look

ROOT = Path(__file__).parents[3]
JOB = re.compile(r"\bjob (\S+): ParameterServerStrategy")


@dataclass
class Command:
    """One that was given at a terminal, and goes on."""

    pipelines: kfp.Kfp
    name: str
    process: subprocess.Popen[str]

    @functools.cached_property
    def ended(self) -> tuple[Ended, str, str]:
        """The run that it has made, and what it has printed, when both have ended."""
        told, said = self.process.communicate(timeout=PIPELINE_SECONDS)
        number = re.search(r"^run (\S+) is started: ", said, re.MULTILINE)
        assert number, said
        with connected(self.pipelines) as client:
            return Ended.of(self.pipelines, client, number[1], seconds=60), told, said

    def succeeded(self) -> Ended:
        """The run, which has."""
        found, told, said = self.ended
        assert self.process.returncode == 0, f"{told}{said}{found.report()}"
        assert re.search(rf"^{self.name.replace('_', '-')} succeeded in ", told, re.MULTILINE), told
        return found


@pytest.fixture(scope="module")
def commands(
    pipelines: kfp.Kfp, our_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Command]]:
    """All that are tried here, given at the same time."""
    registry = pipelines.cluster.site.registry
    sizes = [f"--set=train.{role}_resource_request={RESOURCES[role]}" for role in ("worker", "ps")]
    sizes += [f"--set=train.{role}_resource_limit={LIMIT}" for role in ("worker", "ps")]
    once = "--param=num_epochs=1"
    place = [f"--param=repository={registry}/me/digits", f"--param=insecure_registries={registry}"]
    words = {
        "mnist": ["mnist", f"--param=image_name={our_image}", once, *sizes],
        "own_image": ["own_image", f"--param=base_image={registry}/{our_image}", once, *place, *sizes],
        "as_typed": ["mnist"],
        "census": ["census", f"--param=image_name={our_image}", once, *sizes],
        "cifar10": ["cifar10_allreduce", once, "--set=train.min_workers=2"],
        "sweep": ["sweep", once],
        "failing": ["mnist", "--set=convert.source=/nowhere"],
    }
    given = dict[str, Command]()
    others = {
        "mnist": {**pipelines.environment(), "KFP_DISABLE_EXECUTION_CACHING_BY_DEFAULT": "true"},
        "failing": by_token(pipelines, tmp_path_factory.mktemp("token")),
    }
    with granted(pipelines):
        for called, (name, *options) in words.items():
            process = subprocess.Popen(
                [sys.executable, ROOT / "pipelines" / f"{name}.py", "--engine=kfp", *options],
                env=others.get(called) or pipelines.environment(),
                cwd=tmp_path_factory.mktemp(called),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            given[called] = Command(pipelines, name, process)
        try:
            yield given
        finally:
            for command in given.values():
                command.process.kill()
                command.process.communicate()


@pytest.fixture(scope="module")
def mnist(commands: dict[str, Command]) -> Ended:
    """Trained on pods; nothing of it is another's of the same images, taken from the cache."""
    return commands["mnist"].succeeded()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := looks.why_not():
        looks.skip_or_fail(reason)
    requirements.install(looks.PACKAGES)
    opened = Browser(tmp_path_factory.mktemp("browser"))
    try:
        yield opened
    finally:
        opened.close()


def accuracy(run: Ended, step: str) -> float:
    """Of the evaluation of this step, by the metrics that KFP shows."""
    [metrics] = run.artifacts(step, "system.Metrics")
    return metrics.figures["accuracy"]


def times_of(pod: Any) -> tuple[datetime, datetime]:
    """When the step in it began and ended."""
    [main] = [each for each in pod["status"]["containerStatuses"] if each["name"] == "main"]
    ran = main["state"]["terminated"]
    return datetime.fromisoformat(ran["startedAt"]), datetime.fromisoformat(ran["finishedAt"])


def test_p7_the_mnist_pipeline_succeeds_and_its_metrics_and_pages_are_kept(mnist: Ended) -> None:
    assert accuracy(mnist, "train") > 0.5
    assert accuracy(mnist, "evaluate") > 0.5
    for step in ("train", "evaluate"):
        [page] = mnist.artifacts(step, "system.HTML")
        assert b"</html>" in mnist.pipelines.store.read(page.key), page


def test_the_command_tells_the_metrics_and_where_report_and_model_are(
    commands: dict[str, Command],
) -> None:
    run, told, _ = commands["mnist"].ended
    for step, kinds in {"train": {"Model", "Metrics", "HTML"}, "evaluate": {"Metrics", "HTML"}}.items():
        for kind in kinds:
            [made] = run.artifacts(step, f"system.{kind}")
            assert f"{step:<10} {made.uri.rpartition('/')[2]}: {made.uri}" in told.splitlines(), told
    figures = re.search(r"^train +metrics: .*\n +(.*)$", told, re.MULTILINE)
    assert figures, told
    assert float(re.findall(r"\baccuracy ([\d.]+)", figures[1])[0]) > 0.5, told
    assert re.search(r"^train +steps: [1-9]\d*$", told, re.MULTILINE), told
    assert re.search(r"^evaluate +\d.* records in .*accuracy", told, re.MULTILINE), told  # its last words


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("train", {"Training loss", "Evaluations"}),
        ("evaluate", {"Confusion matrix", "accuracy"}),
    ],
)
def test_a_report_read_from_s3_is_drawn_and_asks_for_nothing(
    mnist: Ended, browser: Browser, tmp_path: Path, step: str, words: set[str]
) -> None:
    [made] = mnist.artifacts(step, "system.HTML")
    text = mnist.pipelines.store.read(made.key).decode()
    for name, page in {"alone": text, "framed": framed(text)}.items():
        path = tmp_path / f"{name}.html"
        path.write_text(page)
        with browser.open(path) as shown:
            assert look(shown, f"kubeflow-{step}-{name}") == []
            assert shown.said == []
            assert set(shown.asked_for) <= {path.as_uri(), "about:srcdoc"}
            seen = shown.run("document.body.innerText")
            assert [word for word in words if word.lower() not in seen.lower()] == [], seen
            assert shown.run("document.querySelectorAll('svg').length") > 0


@pytest.mark.parametrize("step", ["convert", "train"])
def test_a_table_read_from_s3_is_drawn_and_asks_for_nothing(
    mnist: Ended, browser: Browser, tmp_path: Path, step: str
) -> None:
    [made] = mnist.artifacts(step, "system.Markdown")
    path = tmp_path / "page.html"
    path.write_text(markdown(mnist.pipelines.store.read(made.key).decode()))
    with browser.open(path) as shown:
        assert look(shown) == []
        assert shown.said == []
        assert shown.asked_for == [path.as_uri()]
        assert shown.run("document.querySelectorAll('td').length") > 0


def test_the_mnist_pipeline_trains_on_pods_that_read_and_write_the_store_themselves(mnist: Ended) -> None:
    pod = mnist.pods("train")[-1]
    assert any(line.endswith("2 workers, 1 parameter server, on kubernetes") for line in mnist.said(pod))
    [model] = mnist.artifacts("train", "system.Model")
    assert f"{model.key}/model.keras" in mnist.pipelines.store.keys(f"{model.key}/")
    assert left_of(mnist.pipelines, job_name(mnist.number)) == []


def test_the_command_as_it_is_typed_first_trains_with_processes_of_the_step(
    commands: dict[str, Command],
) -> None:
    """It is given no parameter."""
    run = commands["as_typed"].succeeded()
    assert accuracy(run, "train") > 0.5
    assert accuracy(run, "evaluate") > 0.5
    pod = run.pods("train")[-1]
    said = run.said(pod)
    assert any(line.endswith("2 workers, 1 parameter server, on process") for line in said), said


def test_the_pipeline_that_builds_its_image_trains_and_evaluates_in_it(
    pipelines: kfp.Kfp, commands: dict[str, Command]
) -> None:
    registry = pipelines.cluster.site.registry
    run = commands["own_image"].succeeded()
    [build] = run.pods("build-image")
    [made] = re.findall(rf"the image is ({registry}/me/digits@sha256:\w{{64}}): ", "\n".join(run.said(build)))
    for step in ("train", "evaluate"):
        pod = run.pods(step)[-1]
        images = {each["name"]: each["image"] for each in pod["spec"]["containers"]}
        assert images["main"] == made
    pod = run.pods("train")[-1]
    assert any(line.endswith("2 workers, 1 parameter server, on kubernetes") for line in run.said(pod))
    assert accuracy(run, "evaluate") > 0.5


def test_p7_the_census_pipeline_succeeds_and_each_person_of_its_test_has_a_prediction(
    pipelines: kfp.Kfp, commands: dict[str, Command]
) -> None:
    run = commands["census"].succeeded()
    assert accuracy(run, "train") > 0.5
    assert accuracy(run, "evaluate") > 0.5
    [judged] = run.artifacts("evaluate", "system.Metrics")
    [used] = run.artifacts("predict", "system.Dataset")
    assert judged.figures["records"] > 0
    assert used.figures["records"] == judged.figures["records"]
    assert pipelines.store.keys(f"{used.key}/")
    pod = run.pods("train")[-1]
    assert any("2 workers, 2 parameter servers, on kubernetes" in line for line in run.said(pod))
    assert left_of(pipelines, job_name(run.number)) == []


def test_p7_images_are_trained_on_by_workers_that_sum_their_gradients(commands: dict[str, Command]) -> None:
    run = commands["cifar10"].succeeded()
    [trained] = run.artifacts("train", "system.Metrics")
    assert (trained.figures["records"], trained.figures["most_workers"]) == (400, 2)
    [judged] = run.artifacts("evaluate", "system.Metrics")
    assert judged.figures["records"] == 100
    pod = run.pods("train")[-1]
    said = "\n".join(run.said(pod))
    assert re.search(r"AllreduceStrategy, 2 workers, .*on process$", said, re.MULTILINE), said
    assert re.search(r"world \d+: 2 workers train together", said), said


def test_p7_the_trainings_of_the_sweep_run_beside_each_other_and_the_best_is_named(
    pipelines: kfp.Kfp, commands: dict[str, Command]
) -> None:
    run = commands["sweep"].succeeded()
    trainings = run.pods("train")
    assert len(trainings) >= len(TRAININGS)
    named = [JOB.search("\n".join(run.said(pod))) for pod in trainings]
    times = sorted(map(times_of, trainings))
    assert any(began < ended for (_, ended), (began, _) in itertools.pairwise(times)), times
    assert {each[1] for each in named if each} == {job_name(f"{name}-{run.number}") for name in TRAININGS}
    [table] = run.artifacts("compare", "system.Markdown")
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \|$", pipelines.store.read(table.key).decode(), re.MULTILINE)
    assert {name for name, _ in rows} == {*TRAININGS}
    best = max(rows, key=lambda row: float(row[1]))[0]
    told = commands["sweep"].ended[1]
    assert re.search(rf"^compare +Output: {best}$", told, re.MULTILINE), told
    assert min(float(accuracy) for _, accuracy in rows) > 0.5


def test_the_command_says_why_a_run_failed(commands: dict[str, Command]) -> None:
    run, told, complained = commands["failing"].ended
    ended = commands["failing"].process.returncode, run.state
    assert ended == (1, "FAILED"), f"{told}{complained}{run.report()}"
    [pod] = run.pods("convert")
    reason = run.said(pod)[-1].removeprefix("error: ")
    assert "/nowhere" in reason
    assert complained.splitlines()[-1] == f"error: run {run.number}: the pipeline failed: convert: {reason}"
