"""`--image`: what steps run in on a cluster, where a pipeline has not chosen another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hera.workflows import DAG, Workflow
from kfp import dsl

from components import argo
from components.image import IMAGE
from elasticdl_components import build_image, convert
from pipelines.census import census, census_on_argo
from pipelines.cifar10_allreduce import cifar10, cifar10_on_argo
from pipelines.command import main
from pipelines.mnist import mnist, mnist_on_argo
from pipelines.own_image import own_image, own_image_on_argo
from pipelines.packages.argo import ArgoPackage
from pipelines.packages.kfp import KfpPackage
from pipelines.sweep import sweep, sweep_on_argo

MINE = "registry.example/team/elasticdl:1"
BOTH = {
    "mnist": (mnist, mnist_on_argo),
    "census": (census, census_on_argo),
    "cifar10-allreduce": (cifar10, cifar10_on_argo),
    "sweep": (sweep, sweep_on_argo),
    "own-image": (own_image, own_image_on_argo),
}
ARGO = {"GET /apis/argoproj.io/v1alpha1": lambda _: {"resources": [{"name": "workflows"}]}}


def command(*words: str, of: Callable[[], Workflow] = mnist_on_argo) -> int:
    return main(mnist, argo=of, argv=words)


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    return line


def ir(text: str) -> dict[str, Any]:
    return next(yaml.safe_load_all(text))


def images(spec: dict[str, Any]) -> dict[str, str]:
    """What each executor runs in."""
    return {name: each["container"]["image"] for name, each in spec["deploymentSpec"]["executors"].items()}


def arguments(workflow: Any) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in workflow["spec"]["arguments"]["parameters"]}


@pytest.mark.parametrize("name", BOTH)
def test_each_pipeline_runs_in_the_image_that_is_named_and_in_ours_no_more(name: str) -> None:
    pipeline, on_argo = BOTH[name]
    assert main(pipeline, argo=on_argo, argv=["--engine=none", f"--image={MINE}"]) == 0
    for_kfp, for_argo = (Path("build", f"{name}.{kind}.yaml").read_text() for kind in ("kfp", "argo"))
    used = images(ir(for_kfp)).values()
    assert {image for image in used if not image.startswith("{{")} == {MINE}
    told = arguments(yaml.safe_load(for_argo)).values()
    assert MINE in told
    assert IMAGE not in told


@dsl.pipeline(name="chosen")
def chosen() -> None:
    convert(format="mnist").set_container_image("registry.example/other:1")
    build_image(repository="registry.example/team/mine", model_zoo="/model_zoo")


def test_an_image_that_a_pipeline_has_chosen_stays_and_a_build_is_on_the_one_that_is_named() -> None:
    package = KfpPackage(chosen)
    assert package.run_in(MINE)
    spec = ir(package.text())
    assert images(spec) == {"exec-convert": "registry.example/other:1", "exec-build-image": MINE}
    base = spec["components"]["comp-build-image"]["inputDefinitions"]["parameters"]["base_image"]
    assert base["defaultValue"] == MINE


def test_a_workflow_without_such_a_parameter_has_it_as_the_default_of_its_templates() -> None:
    with Workflow(generate_name="plain-", entrypoint="main") as workflow, DAG(name="main"):
        argo.convert(format="mnist")
        argo.train(
            model_zoo="/zoo", model_def="m.m", training_data="/data", image_name="registry.example/o:1"
        )
    package = ArgoPackage(workflow, "plain")
    assert package.run_in(MINE)
    defaults = {
        (template["name"], port["name"]): port.get("default")
        for template in package.manifest["spec"]["templates"]
        for port in template.get("inputs", {}).get("parameters", [])
    }
    assert defaults["convert", "image_name"] == MINE
    assert defaults["train", "image_name"] == IMAGE, "it has chosen another"


def chosen_on_argo() -> Workflow:
    with Workflow(generate_name="chosen-", entrypoint="main") as workflow, DAG(name="main"):
        argo.convert(format="mnist", image_name="registry.example/other:1")
    return workflow


@pytest.fixture
def cluster(serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(serve(ARGO).kubeconfig(tmp_path / "kubeconfig")))


@pytest.mark.parametrize(
    ("of", "words"), [(chosen_on_argo, []), (mnist_on_argo, ["--param=image_name=registry.example/o:1"])]
)
def test_where_a_workflow_has_chosen_its_images_it_is_refused(
    cluster: None, of: Callable[[], Workflow], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(f"--image={MINE}", "--dry_run", *words, of=of) == 2
    assert refusal(capsys) == (
        "error: --image: the Hera workflow, which is what would run, has no step without an image"
        " of its choice (name another --engine, or leave it out)"
    )
    assert command(f"--image={MINE}", "--dry_run", "--engine=none", *words, of=of) == 0
    told = capsys.readouterr()
    assert "--image: only in build/mnist.kfp.yaml" in told.err
    (workflow,) = (each for each in yaml.safe_load_all(told.out) if each and each.get("kind") == "Workflow")
    assert MINE not in yaml.safe_dump(workflow)


def test_on_argo_a_dry_run_shows_it(cluster: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(f"--image={MINE}", "--dry_run") == 0
    assert arguments(yaml.safe_load(capsys.readouterr().out))["image_name"] == MINE


def test_on_kfp_a_dry_run_shows_it_and_the_pods_have_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", "https://kfp.example")
    assert command(f"--image={MINE}", "--dry_run", "--param=image_name=registry.example/pods:1") == 0
    spec = ir(capsys.readouterr().out)
    assert {*images(spec).values()} == {MINE}
    assert spec["root"]["inputDefinitions"]["parameters"]["image_name"]["defaultValue"].endswith("pods:1")


@pytest.mark.parametrize("name", ["https://registry.example/team/a:1", ""])
def test_a_wrong_name_is_refused_in_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--engine=none", f"--image={name}") == 2
    assert refusal(capsys).startswith(f"error: --image: {name!r} is no name of an image (write it in lower")
    assert not Path("build").exists()


def test_here_there_are_no_images(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--dry_run", "--engine=local", f"--image={MINE}") == 2
    assert refusal(capsys) == "error: --image: is for a cluster, and the pipeline would run here"
