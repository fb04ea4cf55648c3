"""P3 and P6 for each pipeline that comes with this: both engines are told the same, and know all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hera.workflows import Workflow

from pipelines.census import census, census_on_argo
from pipelines.cifar10_allreduce import cifar10, cifar10_on_argo
from pipelines.mnist import mnist, mnist_on_argo
from pipelines.own_image import own_image, own_image_on_argo
from pipelines.packages.argo import ArgoPackage
from pipelines.packages.kfp import KfpPackage
from pipelines.sweep import TRAININGS, sweep, sweep_on_argo

ROOT = Path(__file__).parents[3]
BOTH = {
    "mnist": (mnist, mnist_on_argo),
    "census": (census, census_on_argo),
    "cifar10-allreduce": (cifar10, cifar10_on_argo),
    "sweep": (sweep, sweep_on_argo),
    "own-image": (own_image, own_image_on_argo),
}
MADE = "{{$.inputs.parameters['pipelinechannel--build-image-Output']}}"
WITHOUT_PYTHON = ROOT / "pipelines" / "mnist_argo_templates.yaml"


@pytest.fixture(scope="module", params=[*BOTH])
def compiled(request: pytest.FixtureRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """KFP's IR and Argo's manifest of a pipeline."""
    pipeline, on_argo = BOTH[request.param]
    for_kfp, for_argo = KfpPackage(pipeline), ArgoPackage(on_argo(), request.param)
    ir = next(yaml.safe_load_all(for_kfp.text()))
    assert ir["pipelineInfo"]["name"] == request.param
    manifest = yaml.safe_load(for_argo.text())
    assert manifest["metadata"]["generateName"] == f"{request.param}-"
    return ir, manifest


def tasks_of_kfp(ir: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The constants that each task is given, by the component it runs."""
    found: dict[str, dict[str, Any]] = {}
    for owner in (ir["root"], *ir["components"].values()):
        for task in owner.get("dag", {}).get("tasks", {}).values():
            given = task.get("inputs", {}).get("parameters", {})
            constants = {
                name: each["runtimeValue"]["constant"]
                for name, each in given.items()
                if "runtimeValue" in each
            }
            found[task["taskInfo"]["name"]] = constants
    return found


def tasks_of_argo(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters that each task of the pipeline's DAG is given."""
    [main] = [t for t in manifest["spec"]["templates"] if t["name"] == manifest["spec"]["entrypoint"]]
    return {task["name"]: parameters(task) for task in main["dag"]["tasks"]}


def parameters(owner: dict[str, Any]) -> dict[str, Any]:
    """With their values; one that has to be given has none."""
    return {each["name"]: each.get("value") for each in owner.get("arguments", {}).get("parameters", [])}


def artifacts(task: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["from"] for each in task.get("arguments", {}).get("artifacts", [])}


def test_what_both_engines_can_be_told_has_the_same_default(compiled: tuple[dict[str, Any], ...]) -> None:
    ir, manifest = compiled
    known = ir["root"]["inputDefinitions"]["parameters"]
    told = parameters(manifest["spec"])
    assert {"source", "model_zoo", "num_epochs", "num_workers"} <= {*known} <= {*told}
    for name, port in known.items():
        default = port.get("defaultValue")
        if default is None:
            assert told[name] is None
        elif name != "image_name":  # which on KFP stands for pods of their own
            assert told[name] == str(int(default) if isinstance(default, float) else default)


def test_steps_of_both_engines_are_told_the_same(compiled: tuple[dict[str, Any], ...]) -> None:
    ir, manifest = compiled
    on_kfp, on_argo = tasks_of_kfp(ir), tasks_of_argo(manifest)
    same = {*on_kfp} & {*on_argo}
    assert "convert" in same
    for task in same:
        for name, value in on_kfp[task].items():
            if name != "job_name" and value != MADE:
                text = str(int(value)) if isinstance(value, float) else value
                assert on_argo[task][name] == text, f"{task}.{name}"


def test_each_parameter_of_a_workflow_is_there_and_is_used(compiled: tuple[dict[str, Any], ...]) -> None:
    _, manifest = compiled
    used = set(re.findall(r"\{\{workflow\.parameters\.(\w+)\}\}", yaml.safe_dump(manifest, width=10_000)))
    assert used == {*parameters(manifest["spec"])}


def test_p6_a_workflow_holds_only_fields_that_argo_4_has(compiled: tuple[dict[str, Any], ...]) -> None:
    _, manifest = compiled
    again = yaml.safe_load(str(Workflow.from_yaml(yaml.safe_dump(manifest)).to_yaml()))
    assert again == manifest


def test_p3_nothing_is_installed_images_are_fixed_and_trainings_are_not_cached(
    compiled: tuple[dict[str, Any], ...],
) -> None:
    ir, _ = compiled
    for executor in ir["deploymentSpec"]["executors"].values():
        assert "pip install" not in " ".join(executor["container"]["command"])
        image = executor["container"]["image"]
        assert image == MADE or re.fullmatch(r"\S+:\d[\w.]*", image)
    for owner in (ir["root"], *ir["components"].values()):
        for name, task in owner.get("dag", {}).get("tasks", {}).items():
            if re.fullmatch(r"train(-\d+)?", name):
                assert not task["cachingOptions"].get("enableCache", False)


@pytest.mark.parametrize("pipeline", [kfp for kfp, _ in BOTH.values()], ids=lambda pipeline: pipeline.name)
def test_a_run_is_named_where_kfp_fills_it_in(pipeline: Any) -> None:
    """KFP's server replaces the run's id only where it is the whole of a value."""
    text = KfpPackage(pipeline).text()
    assert text.count("{{$.pipeline_job_uuid}}") == text.count("constant: '{{$.pipeline_job_uuid}}'") >= 2


def test_trainings_of_the_sweep_have_priorities_of_their_own_and_are_all_cleaned_up() -> None:
    manifest = yaml.safe_load(ArgoPackage(sweep_on_argo(), "sweep").text())
    tasks = tasks_of_argo(manifest)
    assert {name: tasks[name]["worker_pod_priority"] for name in TRAININGS} == {
        "small": "low",
        "medium": "0.5",
        "large": "high",
    }
    [end] = [t for t in manifest["spec"]["templates"] if t["name"] == manifest["spec"]["onExit"]]
    cleaned = [parameters(task)["job_name"] for task in end["dag"]["tasks"]]
    assert sorted(cleaned) == sorted(tasks[name]["job_name"] for name in TRAININGS)
    [main] = [t for t in manifest["spec"]["templates"] if t["name"] == "sweep"]
    after = {task["name"]: task.get("depends") for task in main["dag"]["tasks"]}
    assert {after[name] for name in TRAININGS} == {"convert"}, "they are to run side by side"


def test_the_priorities_of_the_sweep_are_those_of_the_manifest() -> None:
    classes = yaml.safe_load_all((ROOT / "manifests" / "elasticdl-priorities.yaml").read_text())
    assert {each["metadata"]["name"] for each in classes} == {"high", "low"}


def test_the_pipeline_without_python_is_that_of_mnist() -> None:
    plain = yaml.safe_load(WITHOUT_PYTHON.read_text())
    python = yaml.safe_load(ArgoPackage(mnist_on_argo(), "mnist").text())
    assert parameters(plain["spec"]) == parameters(python["spec"])
    assert tasks_of_argo(plain) == tasks_of_argo(python)
    [own], [theirs] = (
        [t["dag"]["tasks"] for t in each["spec"]["templates"] if t["name"] == "mnist"]
        for each in (plain, python)
    )
    assert [artifacts(task) for task in own] == [artifacts(task) for task in theirs]
    assert [task.get("depends") for task in own] == [task.get("depends") for task in theirs]
    assert [task["templateRef"]["template"] for task in own] == [task["template"] for task in theirs]


def test_the_pipeline_without_python_gives_its_templates_what_they_take() -> None:
    plain = yaml.safe_load(WITHOUT_PYTHON.read_text())
    assert yaml.safe_load(str(Workflow.from_file(WITHOUT_PYTHON).to_yaml())) == plain
    [main] = plain["spec"]["templates"]
    for task in (*main["dag"]["tasks"], plain["spec"]["hooks"]["exit"]):
        manifest = ROOT / "manifests" / "argo" / f"{task['templateRef']['name']}.yaml"
        [template] = yaml.safe_load(manifest.read_text())["spec"]["templates"]
        assert template["name"] == task["templateRef"]["template"]
        assert template["retryStrategy"]["retryPolicy"] == "Always"
        inputs = {
            port["name"] for kind in ("parameters", "artifacts") for port in template["inputs"].get(kind, [])
        }
        assert {*parameters(task), *artifacts(task)} <= inputs
