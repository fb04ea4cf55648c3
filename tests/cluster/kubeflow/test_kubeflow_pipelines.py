"""What `docs/known-issues.md` says of Kubeflow Pipelines, by pipelines that have nothing of ours.

And what our training step says where it has no rights but those that KFP gives it: no others are given here.
All runs are started at once, and each test waits for its own. Once one that says `kfp_itself` fails, a line
of the page can go.
"""

import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

import pytest
from kfp import Client, dsl, kubernetes
from kfp.dsl.base_component import BaseComponent

from components import train
from components.image import IMAGE
from elastic_runtime.steps.job_name import job_name
from tests.cluster.kit import kfp, kfp_services, kit
from tests.cluster.kit.cluster import PATIENCE_SECONDS
from tests.cluster.kit.commands import until
from tests.cluster.kit.site import Site
from tests.cluster.kubeflow import graph
from tests.cluster.kubeflow.ended import Ended, connected
from tests.cluster.kubeflow.runs import LOOK, SECONDS, all_started, pods, retry, terminate
from tests.cluster.kubeflow.surroundings import by_token
from tests.cluster.kubeflow.trainings import EXIT_HANDLER, left_of, step_pods
from tests.cluster.test_kit_down import left, traces

PYTHON = "python:3.11"  # the pipeline says which
MENDED = "mended"
"""The config map that is not there at first."""
ASK = "from kfp import Client; Client()"


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def count(upto: int, numbers: dsl.Output[dsl.Dataset]) -> int:
    with open(numbers.path, "w") as file:
        file.write("\n".join(map(str, range(upto))))
    return upto


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def compare(one: dsl.Input[dsl.Dataset], other: dsl.Input[dsl.Dataset]):
    assert one.path == other.path


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def length(numbers: Optional[dsl.Input[dsl.Dataset]] = None) -> int:  # noqa: UP045 - KFP's own spelling
    return 0 if numbers is None else len(open(numbers.path).readlines())


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def say(text: str) -> str:
    return text


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def describe(facts: dsl.Output[dsl.Dataset]):
    facts.metadata |= {"parts": {"train": 4}, "names": ["a", "b"]}


@dsl.component(
    base_image=PYTHON,
    install_kfp_package=False,
    task_config_passthroughs=[dsl.TaskConfigField.RESOURCES],
)
def tell(
    facts: dsl.Input[dsl.Dataset],
    run: str,
    within: str,
    settings: dsl.TaskConfig,
    told: dsl.Output[dsl.Dataset],
):
    import json

    found = {"metadata": facts.metadata, "run": run, "within": within, "settings": vars(settings)}
    with open(told.path, "w") as file:
        json.dump(found, file)


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def put_elsewhere(numbers: dsl.Output[dsl.Dataset]):
    numbers.uri = "s3://elsewhere/numbers"


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def begin(half: dsl.Output[dsl.Dataset]) -> str:
    import os

    with open(half.path, "w") as file:
        file.write("one half")
    if not os.path.exists("/mended/now"):
        raise SystemExit("what is missing is the other half")
    return "mended"


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def wait():
    import time

    time.sleep(3600)


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def at_the_end():
    print("this is the end")


def one_artifact_twice(image: str) -> None:
    numbers = count(upto=2).set_container_image(image).outputs["numbers"]
    compare(one=numbers, other=numbers).set_container_image(image)


def under_optional(image: str) -> None:
    numbers = count(upto=2).set_container_image(image).outputs["numbers"]
    length(numbers=numbers).set_container_image(image)


def item_in_a_text(image: str) -> None:
    end = say(text="the end").set_container_image(image)
    with dsl.ExitHandler(end), dsl.ParallelFor([1, 2]) as number:
        say(text=f"number {number}").set_container_image(image)


def what_is_told(image: str) -> None:
    run = dsl.PIPELINE_JOB_ID_PLACEHOLDER
    facts = describe().set_container_image(image).outputs["facts"]
    told = tell(facts=facts, run=run, within=f"run-{run}").set_container_image(image)
    told.set_memory_limit("256M")


def out_of_place(image: str) -> None:
    put_elsewhere().set_container_image(image)


def mended_later(image: str) -> None:
    end = at_the_end().set_container_image(image).set_caching_options(False)
    with dsl.ExitHandler(end):  # in a group a run's own word on caching counts for nothing
        begun = begin().set_container_image(image).set_caching_options(False)
        kubernetes.use_config_map_as_volume(begun, MENDED, "/mended", optional=True)
        with dsl.If(begun.outputs["Output"] == "mended"):
            say(text="both halves").set_container_image(image).set_caching_options(False)


def endless(image: str) -> None:
    with dsl.ExitHandler(at_the_end().set_container_image(image)):
        wait().set_container_image(image)


PIPELINES = (
    one_artifact_twice,
    under_optional,
    item_in_a_text,
    what_is_told,
    out_of_place,
    mended_later,
    endless,
)


def without_rights(_: str) -> None:
    train(
        job_name=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
        image_name=IMAGE,
        model_zoo="/model_zoo",
        model_def="mnist.mnist_functional_api.custom_model",
        training_data="s3://never-asked-for",
    )


def pipeline(steps: Callable[[str], None], image: str) -> BaseComponent:
    """What a user has written whose components have this image."""

    def written():
        steps(image)

    return dsl.pipeline(name=steps.__name__.replace("_", "-"))(written)


@pytest.fixture(scope="module")
def runs(pipelines: kfp.Kfp, plain_image: str, request: pytest.FixtureRequest) -> Mapping[Any, str]:
    """The run of each of these pipelines, just started; the image of the last comes while the others run."""
    with connected(pipelines) as client:
        create = functools.partial(client.create_run_from_pipeline_func, enable_caching=False)

        def start(*written: Callable[[str], None]) -> dict[Any, str]:
            starts = {steps: functools.partial(create, pipeline(steps, plain_image)) for steps in written}
            return all_started(pipelines, client, starts)

        made = start(*PIPELINES)
        request.getfixturevalue("our_image")
        return made | start(without_rights)


@pytest.fixture(scope="module", autouse=True)
def client_by_token(
    pipelines: kfp.Kfp, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[str]]:
    """KFP's client, of somebody who has a token; before all, as it tries five times before it gives up."""
    environment = by_token(pipelines, tmp_path_factory.mktemp("token"))
    words = (sys.executable, "-c", ASK)
    asking = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield asking
    finally:
        asking.kill()
        asking.communicate()


def names(processes: Iterable[str]) -> set[str]:
    """Of those that have not ended meanwhile."""
    found = set[str]()
    for number in processes:
        with suppress(OSError):
            found.add(Path("/proc", number, "comm").read_text().strip())
    return found


@pytest.mark.usefixtures("runs")  # which go on meanwhile
def test_down_leaves_nothing_of_what_it_stands_on(site: Site) -> None:
    before = traces(site)
    kfp_services.install()
    kfp_services.start(kit.up(site, nodes=1))
    assert "mariadbd" in names(left(before, site)["processes"])
    kit.down(site)
    assert left(before, site) == {}


def test_the_account_of_pipelines_has_the_rights_that_kfp_gives_it_and_no_others(
    pipelines: kfp.Kfp,
) -> None:
    account = f"--as=system:serviceaccount:{kfp.NAMESPACE}:pipeline-runner"

    def may(*what: str) -> bool:
        """A cluster that stands still says neither, and is asked again."""
        said = ""

        def is_said() -> bool:
            nonlocal said
            said = pipelines.namespace.kubectl("auth", "can-i", *what, account, check=False)
            return said in {"yes\n", "no\n"}

        until(is_said, what=f"the cluster says whether the account may {' '.join(what)}", seconds=SECONDS)
        return said == "yes\n"

    assert may("create", "pods")
    assert may("get", "configmaps")
    assert not may("create", "configmaps")
    assert not may("create", "secrets")


def test_kfp_itself_shows_what_was_terminated_as_running_for_ever(
    pipelines: kfp.Kfp, client: Client, runs: Mapping[Any, str]
) -> None:
    """In its graph; the run itself it shows as it is."""
    run = runs[endless]

    def waits() -> bool:
        return any(pod["status"]["phase"] == "Running" for pod in step_pods(pipelines, run, "wait"))

    until(waits, what="the step waits", seconds=SECONDS, every=LOOK)
    terminate(pipelines, client, run)
    ended = Ended.of(pipelines, client, run, SECONDS)
    assert ended.state == "FAILED", ended.report()
    assert ended.pods("at-the-end")
    assert ended.graph("wait") == [graph.RUNNING]
    assert ended.graph(EXIT_HANDLER) == [graph.RUNNING]


def test_kfp_itself_keeps_nothing_of_a_step_that_failed_and_the_failure_of_a_group_that_is_mended(
    pipelines: kfp.Kfp, client: Client, runs: Mapping[Any, str]
) -> None:
    """And runs no exit handler after a retry: three lines of the page."""
    ended = Ended.of(pipelines, client, runs[mended_later], SECONDS)
    assert ended.state == "FAILED", ended.report()
    [at_the_end] = ended.pods("at-the-end")
    place = f"v2/artifacts/{mended_later.__name__.replace('_', '-')}/{ended.number}/begin/"
    assert ended.artifacts("begin") == []
    assert pipelines.store.keys(place) == []

    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MENDED}}
    pipelines.namespace.apply({**head, "data": {"now": ""}})
    try:
        retry(pipelines, client, ended.number)
        ended = Ended.of(pipelines, client, ended.number, SECONDS)
    finally:
        pipelines.namespace.kubectl("delete", "configmap", MENDED)
    assert ended.state == "SUCCEEDED", ended.report()
    assert ended.pods("say")
    [made] = ended.artifacts("begin", "system.Dataset")
    assert made.key in pipelines.store.keys(place)
    [still] = ended.pods("at-the-end")
    assert still["metadata"]["uid"] == at_the_end["metadata"]["uid"]
    assert ended.graph("begin") == [graph.COMPLETE]
    assert ended.graph(EXIT_HANDLER) == [graph.FAILED]


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (one_artifact_twice, "Given event already exists"),
        (under_optional, "Cannot instantiate typing.Union"),
        (item_in_a_text, "parent DAG does not have input parameter loop-item-param"),
        (out_of_place, 'URI "s3://elsewhere/numbers" does not have expected bucket prefix'),
    ],
)
def test_kfp_itself_fails_what_is_right(
    pipelines: kfp.Kfp, client: Client, runs: Mapping[Any, str], steps: Any, reason: str
) -> None:
    ended = Ended.of(pipelines, client, runs[steps], SECONDS)
    assert ended.state == "FAILED", ended.report()
    assert reason in pods(pipelines, runs[steps])


def test_kfp_itself_changes_what_a_task_is_told(
    pipelines: kfp.Kfp, client: Client, runs: Mapping[Any, str]
) -> None:
    """In three lines of the page; once one of these fails, its line can go."""
    ended = Ended.of(pipelines, client, runs[what_is_told], SECONDS)
    assert ended.state == "SUCCEEDED", ended.report()
    [artifact] = ended.artifacts("tell", "system.Dataset")
    told = json.loads(pipelines.store.read(artifact.key))
    assert told["metadata"]["parts"] == {"struct": {"train": 4}}
    assert told["metadata"]["names"] == {"list": ["a", "b"]}
    assert told["run"] == ended.number
    assert told["within"] == f"run-{dsl.PIPELINE_JOB_ID_PLACEHOLDER}"
    assert not any(told["settings"].values())
    [pod] = ended.pods("tell")
    limits = {each["name"]: each["resources"].get("limits") for each in pod["spec"]["containers"]}
    assert limits["main"] == {"memory": "256M"}


def test_kfp_itself_has_no_logs_for_its_only_user(
    pipelines: kfp.Kfp, client: Client, runs: Mapping[Any, str]
) -> None:
    ended = Ended.of(pipelines, client, runs[what_is_told], SECONDS)
    [pod] = ended.pods("tell")
    name = pod["metadata"]["name"]
    place = f"/apis/v1alpha1/runs/{ended.number}/nodes/{name}/log"
    told = client._run_api.api_client.call_api(
        place, "GET", response_type="object", auth_settings=["Bearer"], _return_http_data_only=True
    )
    assert not told
    assert pipelines.namespace.log(name, "main")


def test_kfp_itself_does_not_know_its_client_by_a_token(client_by_token: subprocess.Popen[str]) -> None:
    _, complained = client_by_token.communicate(timeout=PATIENCE_SECONDS)
    assert "TimeoutError: Failed getting healthz endpoint after 5 attempts." in complained


def test_p12_without_more_rights_than_kfp_gives_the_step_names_what_to_apply(
    pipelines: kfp.Kfp, client: Client, runs: Mapping[Any, str]
) -> None:
    ended = Ended.of(pipelines, client, runs[without_rights], SECONDS)
    assert ended.state == "FAILED", ended.report()
    [pod] = ended.pods("train")
    assert "manifests/elasticdl-rbac.yaml | kubectl apply -n" in "\n".join(ended.said(pod)), ended.report()
    assert left_of(pipelines, job_name(ended.number)) == []
