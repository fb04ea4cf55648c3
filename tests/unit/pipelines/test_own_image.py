"""The pipeline that builds its image: what has to be given, and what runs in what was built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.command import main
from pipelines.own_image import HERE, MODEL_ZOO, own_image, own_image_on_argo

ARGO = {"GET /apis/argoproj.io/v1alpha1": lambda _: {"resources": [{"name": "workflows"}]}}
NEEDED = (
    "error: --param: repository has to be given: Where the image goes, registry.example/team/model "
    "(write --param repository=VALUE)"
)
REPOSITORY = "--param=repository=registry.example/me/mine"


def command(*words: str) -> int:
    return main(own_image, argo=own_image_on_argo, here=HERE, argv=words)


def ir(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tasks, and the images of their containers."""
    spec = next(yaml.safe_load_all(text))
    containers = spec["deploymentSpec"]["executors"]
    images = {name.removeprefix("exec-"): each["container"]["image"] for name, each in containers.items()}
    return spec["components"]["comp-exit-handler-1"]["dag"]["tasks"], images


def given(task: dict[str, Any], name: str) -> Any:
    """A constant, or where the value comes from."""
    found = task["inputs"]["parameters"][name]
    return found["runtimeValue"]["constant"] if "runtimeValue" in found else found


def of_workflow(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each task is given, and the templates."""
    templates = yaml.safe_load(Path(folder, "own-image.argo.yaml").read_text())["spec"]["templates"]
    named = {template["name"]: template for template in templates}
    tasks = named["own-image"]["dag"]["tasks"]
    return {
        task["name"]: {each["name"]: each["value"] for each in task["arguments"]["parameters"]}
        for task in tasks
    }, named


@pytest.mark.parametrize("words", [["--engine=auto"], ["--engine=local"], ["--param=repository="]])
def test_without_a_repository_nothing_runs_here(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*words) == 2
    assert capsys.readouterr().err.splitlines()[-1] == NEEDED
    assert not Path("build", "outputs").exists()


@pytest.mark.parametrize("words", [[], ["--param=repository="]])
def test_without_a_repository_no_workflow_is_made(
    words: list[str],
    serve,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serve(ARGO)
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig", "")))
    assert command(*words) == 2
    assert capsys.readouterr().err.splitlines()[-1] == NEEDED
    assert {request.partition(" ")[0] for request in server.asked} == {"GET"}


def test_without_a_repository_it_is_compiled_for_engines_that_ask_for_it() -> None:
    assert command("--engine=none") == 0


def test_training_and_evaluation_run_in_the_image_that_was_built() -> None:
    assert command("--engine=none", REPOSITORY) == 0
    tasks, images = ir(Path("build", "own-image.kfp.yaml").read_text())
    made = {"taskOutputParameter": {"outputParameterKey": "Output", "producerTask": "build-image"}}
    assert given(tasks["train"], "image_name") == made
    for step in ("train", "evaluate"):
        assert images[step] == "{{$.inputs.parameters['pipelinechannel--build-image-Output']}}"
        assert given(tasks[step], "pipelinechannel--build-image-Output") == made
    on_argo, templates = of_workflow(Path("build"))
    for step in ("train", "evaluate"):
        assert on_argo[step]["image_name"] == "{{tasks.build-image.outputs.parameters.image}}"
        assert templates[step]["container"]["image"] == "{{inputs.parameters.image_name}}"
    assert on_argo["build-image"]["image_name"] == on_argo["build-image"]["base_image"]


def test_the_folder_that_is_named_is_that_of_the_build_alone() -> None:
    assert command("--engine=none", REPOSITORY, "--param=model_zoo=s3://bucket/zoo") == 0
    tasks, _ = ir(Path("build", "own-image.kfp.yaml").read_text())
    assert given(tasks["build-image"], "model_zoo") == {
        "componentInputParameter": "pipelinechannel--model_zoo"
    }
    assert given(tasks["train"], "model_zoo") == of_workflow(Path("build"))[0]["train"]["model_zoo"]
    assert given(tasks["train"], "model_zoo") == "/model_zoo"
    assert "model_zoo" not in tasks["convert"]["inputs"]["parameters"]


def test_a_login_may_be_missing_and_only_the_build_has_it() -> None:
    assert command("--engine=none", REPOSITORY) == 0
    _, platforms = yaml.safe_load_all(Path("build", "own-image.kfp.yaml").read_text())
    on_kfp = platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    [(step, login)] = [(step, each) for step, each in on_kfp.items() if "secretAsVolume" in each]
    [mounted] = login["secretAsVolume"]
    assert (step, mounted["optional"]) == ("exec-build-image", True)
    assert "componentInputParameter" in mounted["secretNameParameter"]
    on_argo, templates = of_workflow(Path("build"))
    found = [
        (each["name"], v["secret"])
        for each in templates.values()
        for v in each.get("volumes", ())
        if "secret" in v
    ]
    secret = {"secretName": "{{inputs.parameters.login_secret}}", "optional": True}
    assert found == [("build-image", secret)]
    assert on_argo["build-image"]["login_secret"] == "{{workflow.parameters.login_secret}}"


@pytest.mark.parametrize(
    ("words", "zoo", "image"),
    [
        ((), MODEL_ZOO, ""),
        (("--param=model_zoo=mine",), "mine", ""),
        (("--param=model_zoo=mine", "--set=train.model_zoo=other"), "other", ""),
        (("--set=train.image_name=i:1",), MODEL_ZOO, "i:1"),
    ],
)
def test_here_the_folder_itself_is_trained_by_processes(
    words: tuple[str, ...], zoo: str, image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--dry_run", REPOSITORY, *words) == 0
    tasks, _ = ir(capsys.readouterr().out)
    assert (given(tasks["train"], "model_zoo"), given(tasks["train"], "image_name")) == (zoo, image)


def test_the_help_names_what_has_to_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command("--help")
    assert "\nto be given: repository\n" in capsys.readouterr().out
