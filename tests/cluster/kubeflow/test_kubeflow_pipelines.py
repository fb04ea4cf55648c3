"""What `docs/known-issues.md` says of Kubeflow Pipelines, by pipelines that have nothing of ours.

All runs are started at once, and each test waits for its own. Once one of these tests fails, a line of the
page can go.
"""

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

import pytest
from kfp import Client, dsl
from kfp.dsl.base_component import BaseComponent

from tests.cluster.kit import kfp, kfp_services, kit
from tests.cluster.kit.commands import until
from tests.cluster.kit.site import Site
from tests.cluster.kubeflow.ended import Ended, connected
from tests.cluster.kubeflow.runs import SECONDS, ends, pods, retry, started
from tests.cluster.kubeflow.trainings import step_pods
from tests.cluster.test_kit_down import left, traces

PYTHON = "python:3.11"  # the pipeline says which


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
def fail():
    raise SystemExit("as it always does")


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


def failing(image: str) -> None:
    with dsl.ExitHandler(at_the_end().set_container_image(image)):
        fail().set_container_image(image)


PIPELINES = (one_artifact_twice, under_optional, item_in_a_text, what_is_told, failing)


def pipeline(steps: Callable[[str], None], image: str) -> BaseComponent:
    """What a user has written whose components have this image."""

    def written():
        steps(image)

    return dsl.pipeline(name=steps.__name__.replace("_", "-"))(written)


@pytest.fixture(scope="module")
def runs(pipelines: kfp.Kfp, plain_image: str) -> Mapping[Any, str]:
    """The run of each of these pipelines, just started."""
    with connected(pipelines) as client:
        create = functools.partial(client.create_run_from_pipeline_func, enable_caching=False)
        return {
            steps: started(pipelines, client, functools.partial(create, pipeline(steps, plain_image)))
            for steps in PIPELINES
        }


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (one_artifact_twice, "Given event already exists"),
        (under_optional, "Cannot instantiate typing.Union"),
        (item_in_a_text, "parent DAG does not have input parameter loop-item-param"),
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


def test_kfp_itself_runs_no_exit_handler_after_a_retry(
    pipelines: kfp.Kfp, client: Client, runs: Mapping[Any, str]
) -> None:
    run = runs[failing]
    assert ends(pipelines, client, run, SECONDS) == "FAILED"
    [failed], [ended] = (step_pods(pipelines, run, name) for name in ("fail", "at_the_end"))
    retry(pipelines, client, run)

    def failed_again() -> bool:
        found = step_pods(pipelines, run, "fail")
        return any(pod["metadata"]["uid"] != failed["metadata"]["uid"] for pod in found)

    until(failed_again, what="the step is run again", seconds=SECONDS)
    assert ends(pipelines, client, run, SECONDS) == "FAILED"
    [still] = step_pods(pipelines, run, "at_the_end")
    assert still["metadata"]["uid"] == ended["metadata"]["uid"]


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


def test_down_leaves_nothing_of_what_it_stands_on(site: Site) -> None:
    before = traces(site)
    kfp_services.install()
    kfp_services.start(kit.up(site, nodes=1))
    assert "mariadbd" in names(left(before, site)["processes"])
    kit.down(site)
    assert left(before, site) == {}


def names(processes: Iterable[str]) -> set[str]:
    """Of those that have not ended meanwhile."""
    found = set[str]()
    for number in processes:
        with suppress(OSError):
            found.add(Path("/proc", number, "comm").read_text().strip())
    return found
