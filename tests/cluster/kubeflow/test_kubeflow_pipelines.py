"""Pipelines on Kubeflow Pipelines' own server, driver and launcher, submitted as users submit them."""

import json
from pathlib import Path
from typing import Optional

from kfp import Client, dsl

from tests.cluster.kit import kfp, kit
from tests.cluster.kit.site import Site
from tests.cluster.kubeflow.ended import Ended
from tests.cluster.kubeflow.runs import pods
from tests.cluster.test_kit_down import left, traces

RUN_SECONDS = 180
PYTHON = "python:3.11"  # the pipeline says which


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def count(upto: int, numbers: dsl.Output[dsl.Dataset]) -> int:
    with open(numbers.path, "w") as file:
        file.write("\n".join(map(str, range(upto))))
    return upto


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def add(numbers: dsl.Input[dsl.Dataset], expected: int, sums: dsl.Output[dsl.Metrics]):
    with open(numbers.path) as file:
        found = [int(line) for line in file]
    assert len(found) == expected
    sums.log_metric("sum", sum(found))


def two_steps(image: str):
    """A value and an artifact go from one lightweight component to another."""

    @dsl.pipeline(name="two-steps")
    def pipeline(upto: int = 5):
        counted = count(upto=upto).set_container_image(image)
        add(numbers=counted.outputs["numbers"], expected=counted.outputs["Output"]).set_container_image(image)

    return pipeline


def test_a_pipeline_of_plain_components_succeeds(
    pipelines: kfp.Kfp, client: Client, plain_image: str
) -> None:
    made = client.create_run_from_pipeline_func(
        two_steps(plain_image), arguments={"upto": 6}, enable_caching=False
    )
    ended = Ended.of(pipelines, client, made.run_id, RUN_SECONDS)
    assert ended.state == "SUCCEEDED", ended.report()
    [numbers], [sums] = ended.artifacts("count", "system.Dataset"), ended.artifacts("add", "system.Metrics")
    assert pipelines.store.read(numbers.key) == b"0\n1\n2\n3\n4\n5"
    assert sums.figures == {"sum": 15.0}


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def compare(one: dsl.Input[dsl.Dataset], other: dsl.Input[dsl.Dataset]):
    assert one.path == other.path


def test_kfp_itself_cannot_give_a_task_the_same_artifact_twice(
    pipelines: kfp.Kfp, client: Client, plain_image: str
) -> None:
    """What `docs/known-issues.md` says; once this fails, that can go."""

    @dsl.pipeline(name="one-artifact-twice")
    def pipeline():
        numbers = count(upto=2).set_container_image(plain_image).outputs["numbers"]
        compare(one=numbers, other=numbers).set_container_image(plain_image)

    made = client.create_run_from_pipeline_func(pipeline, enable_caching=False)
    ended = client.wait_for_run_completion(made.run_id, timeout=RUN_SECONDS, sleep_duration=1)
    assert ended.state == "FAILED"
    assert "Given event already exists" in pods(pipelines, made.run_id)


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def length(numbers: Optional[dsl.Input[dsl.Dataset]] = None) -> int:  # noqa: UP045 - KFP's own spelling
    return 0 if numbers is None else len(open(numbers.path).readlines())


def test_kfp_itself_cannot_give_a_task_what_is_under_optional(
    pipelines: kfp.Kfp, client: Client, plain_image: str
) -> None:
    """What `docs/known-issues.md` says; once this fails, that can go."""

    @dsl.pipeline(name="under-optional")
    def pipeline():
        numbers = count(upto=2).set_container_image(plain_image).outputs["numbers"]
        length(numbers=numbers).set_container_image(plain_image)

    made = client.create_run_from_pipeline_func(pipeline, enable_caching=False)
    ended = client.wait_for_run_completion(made.run_id, timeout=RUN_SECONDS, sleep_duration=1)
    assert ended.state == "FAILED"
    assert "Cannot instantiate typing.Union" in pods(pipelines, made.run_id)


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def say(text: str) -> str:
    return text


def test_kfp_itself_cannot_put_the_item_of_a_loop_within_another_group_into_a_text(
    pipelines: kfp.Kfp, client: Client, plain_image: str
) -> None:
    """What `docs/known-issues.md` says; once this fails, that can go."""

    @dsl.pipeline(name="item-in-a-text")
    def pipeline():
        end = say(text="the end").set_container_image(plain_image)
        with dsl.ExitHandler(end), dsl.ParallelFor([1, 2]) as number:
            say(text=f"number {number}").set_container_image(plain_image)

    made = client.create_run_from_pipeline_func(pipeline, enable_caching=False)
    ended = client.wait_for_run_completion(made.run_id, timeout=RUN_SECONDS, sleep_duration=1)
    assert ended.state == "FAILED"
    assert "parent DAG does not have input parameter loop-item-param" in pods(pipelines, made.run_id)


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


def test_kfp_itself_changes_what_a_task_is_told(pipelines: kfp.Kfp, client: Client, plain_image: str) -> None:
    """What `docs/known-issues.md` says, in three of its lines; once one of these fails, its line can go."""
    run = dsl.PIPELINE_JOB_ID_PLACEHOLDER

    @dsl.pipeline(name="what-is-told")
    def pipeline():
        facts = describe().set_container_image(plain_image).outputs["facts"]
        told = tell(facts=facts, run=run, within=f"run-{run}").set_container_image(plain_image)
        told.set_memory_limit("256M")

    made = client.create_run_from_pipeline_func(pipeline, enable_caching=False)
    ended = Ended.of(pipelines, client, made.run_id, RUN_SECONDS)
    assert ended.state == "SUCCEEDED", ended.report()
    [artifact] = ended.artifacts("tell", "system.Dataset")
    told = json.loads(pipelines.store.read(artifact.key))
    assert told["metadata"]["parts"] == {"struct": {"train": 4}}
    assert told["metadata"]["names"] == {"list": ["a", "b"]}
    assert told["run"] == made.run_id
    assert told["within"] == f"run-{run}"
    assert not any(told["settings"].values())
    [pod] = ended.pods("tell")
    limits = {each["name"]: each["resources"].get("limits") for each in pod["spec"]["containers"]}
    assert limits["main"] == {"memory": "256M"}


def test_the_account_of_pipelines_has_the_rights_that_kfp_gives_it_and_no_others(
    pipelines: kfp.Kfp,
) -> None:
    account = f"--as=system:serviceaccount:{kfp.NAMESPACE}:pipeline-runner"

    def may(*what: str) -> bool:
        return pipelines.namespace.kubectl("auth", "can-i", *what, account, check=False) == "yes\n"

    assert may("create", "pods")
    assert may("get", "configmaps")
    assert not may("create", "configmaps")
    assert not may("create", "secrets")


def test_down_leaves_nothing_of_it(site: Site) -> None:
    before = traces(site)
    kfp.started(kit.up(site, nodes=1))
    assert "mariadbd" in {process_name(number) for number in left(before, site)["processes"]}
    kit.down(site)
    assert left(before, site) == {}


def process_name(number: str) -> str:
    return Path("/proc", number, "comm").read_text().strip()
