"""`--param`, `--set` and `--dry_run`: what is typed changes both forms of a pipeline, or is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hera.workflows import DAG, Workflow
from kfp.dsl.base_component import BaseComponent

from components import argo
from elastic_runtime.errors import InputError
from pipelines.census import census
from pipelines.cifar10_allreduce import cifar10
from pipelines.command import main
from pipelines.mnist import mnist, mnist_on_argo
from pipelines.own_image import own_image
from pipelines.packages import Change
from pipelines.packages.argo import ArgoPackage
from pipelines.packages.kfp import KfpPackage
from pipelines.sweep import sweep, sweep_on_argo


def command(*words: str) -> int:
    return main(mnist, argo=mnist_on_argo, argv=words)


def compiled(kind: str) -> Any:
    return next(yaml.safe_load_all(Path("build", f"mnist.{kind}.yaml").read_text()))


def task_in_ir(name: str) -> Any:
    spec = compiled("kfp")
    dags = [owner["dag"]["tasks"] for owner in (spec["root"], *spec["components"].values()) if "dag" in owner]
    (found,) = [tasks[name] for tasks in dags if name in tasks]
    return found["inputs"]["parameters"]


def arguments(owner: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in owner["arguments"]["parameters"]}


def task_on_argo(name: str) -> dict[str, str]:
    templates = compiled("argo")["spec"]["templates"]
    (found,) = [
        t for template in templates for t in template.get("dag", {}).get("tasks", []) if t["name"] == name
    ]
    return arguments(found)


def test_both_forms_have_the_same_steps_in_the_same_order() -> None:
    steps = ["convert", "train", "evaluate", "clean-up"]
    assert KfpPackage(mnist).steps() == steps
    assert ArgoPackage(mnist_on_argo(), "mnist").steps() == steps


def test_an_input_of_a_step_is_changed_in_both_forms() -> None:
    assert command("--engine=none", "--set=train.num_workers=4", "--set=evaluate.class_names=a,b") == 0
    assert task_in_ir("train")["num_workers"] == {"runtimeValue": {"constant": 4.0}}
    assert task_on_argo("train")["num_workers"] == "4"
    assert task_in_ir("evaluate")["class_names"] == {"runtimeValue": {"constant": "a,b"}}
    assert task_on_argo("evaluate")["class_names"] == "a,b"


def test_what_was_not_named_stays() -> None:
    assert command("--engine=none") == 0
    before = compiled("kfp"), compiled("argo")
    assert command("--engine=none", "--set=train.num_workers=4") == 0
    changed = compiled("kfp"), compiled("argo")
    assert changed[0] != before[0]
    assert changed[1] != before[1]
    assert command("--engine=none") == 0
    assert (compiled("kfp"), compiled("argo")) == before, "a change outlived its command"


@pytest.mark.parametrize("text", ["true", "True"])
def test_a_truth_is_one_in_both_forms(text: str) -> None:
    assert command("--engine=none", f"--set=train.use_async={text}") == 0
    assert task_in_ir("train")["use_async"] == {"runtimeValue": {"constant": True}}
    assert task_on_argo("train")["use_async"] == "true"


def test_the_exit_handlers_step_can_be_changed() -> None:
    assert command("--engine=none", "--set=clean-up.remove_files=true") == 0
    assert task_in_ir("clean-up")["remove_files"] == {"runtimeValue": {"constant": True}}
    assert task_on_argo("clean-up")["remove_files"] == "true"


def test_a_parameter_is_changed_where_it_is_one() -> None:
    assert (
        command("--engine=none", "--param=num_epochs=5", "--param=volume=claim_name=mine,mount_path=/m") == 0
    )
    assert compiled("kfp")["root"]["inputDefinitions"]["parameters"]["num_epochs"]["defaultValue"] == 5
    on_argo = arguments(compiled("argo")["spec"])
    assert (on_argo["num_epochs"], on_argo["volume"]) == ("5", "claim_name=mine,mount_path=/m")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--set=trian.num_workers=4", "no step 'trian' (did you mean 'train'?)"),
        ("--set=train.num_worker=4", "step 'train' has no input 'num_worker' (did you mean 'num_workers'?)"),
        ("--set=train.training_dataset=x", "no input 'training_dataset'"),  # which is what a step makes
        ("--set=train.task_config=x", "no input 'task_config'"),
        ("--set=train.num_workers=many", "--set train.num_workers: got 'many' (give Integer)"),
        ("--set=train.num_workers=1.5", "got '1.5' (give Integer)"),
        ("--set=train.num_workers=true", "got 'true' (give Integer)"),
        ("--set=train.shuffle_shards=yes", "got 'yes' (give Boolean)"),
        ("--set=train.distribution_strategy=Both", "give one of 'ParameterServerStrategy', "),
        ("--set=train", "write --set step.input=value"),
        ("--set=train=3", "write --set step.input=value"),
        ("--param=num_epoch=1", "no parameter 'num_epoch' (did you mean 'num_epochs'?)"),
        ("--param=volum=x", "did you mean 'volume'?"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(
    word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--engine=none", word) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not Path("build").exists()


REFUSED = [
    (Change("train", "num_workers", "-1"), "step train: --num_workers: got '-1'"),
    (Change("", "num_workers", "-1"), "step train: --num_workers: got '-1'"),
    (Change("train", "volume", "x"), "step train: --volume: 'x' is not of the form key=value"),
    (
        Change("convert", "format", "mnits"),
        "step convert: format: unknown format 'mnits' (did you mean 'mnist'?)",
    ),
    (Change("clean-up", "job_name", ""), "step clean-up: job_name: no job is named"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
@pytest.mark.parametrize("form", [mnist, mnist_on_argo], ids=["kfp", "argo"])
def test_what_a_step_would_refuse_is_refused_in_either_form(form: Any, change: Change, said: str) -> None:
    package: Any = KfpPackage(mnist) if form is mnist else ArgoPackage(mnist_on_argo(), "mnist")
    package.change(change)
    with pytest.raises(InputError, match=re.escape(said)):
        package.check()


def test_what_a_step_would_refuse_is_told_in_one_line_before_anything_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command("--engine=none", "--set=convert.format=mnits") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "error: step convert: format: unknown format 'mnits' (did you mean 'mnist'?)"
    assert not Path("build").exists()


@pytest.mark.parametrize(("task", "name"), [("evaluate", "split"), ("train", "training_split")])
@pytest.mark.parametrize("form", [mnist, mnist_on_argo], ids=["kfp", "argo"])
def test_a_part_that_is_not_made_is_refused_in_either_form(form: Any, task: str, name: str) -> None:
    package: Any = KfpPackage(mnist) if form is mnist else ArgoPackage(mnist_on_argo(), "mnist")
    package.change(Change(task, name, "tset"))
    with pytest.raises(InputError, match=f"step {task}: {name}: there is no part 'tset'"):
        package.check()


def test_a_parameter_is_judged_where_a_pipeline_hands_it_on_to_another() -> None:
    package = KfpPackage(sweep)
    package.change(Change("", "num_workers", "-1"))
    with pytest.raises(InputError, match="step train: --num_workers: got '-1'"):
        package.check()


def test_inputs_that_only_argo_knows_are_no_options_of_the_job() -> None:
    package = ArgoPackage(mnist_on_argo(), "mnist")
    package.change(Change("train", "step_resource_request", "cpu=1"))
    package.check()
    package.change(Change("train", "step_resource_request", "cpus=1"))
    with pytest.raises(InputError, match=r"step train: step_resource_request: .* 'cpu'"):
        package.check()


def test_what_only_the_other_form_has_is_refused_where_the_pipeline_would_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command("--dry_run", "--engine=local", "--param=folder=x") == 2
    assert "--param folder: the KFP function, which is what would run" in capsys.readouterr().err


def test_a_dry_run_shows_what_would_be_submitted_and_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--dry_run", "--set=train.num_workers=4") == 0
    said = capsys.readouterr()
    assert "this would run on this machine (no cluster is configured" in said.err
    assert next(yaml.safe_load_all(said.out))["pipelineInfo"]["name"] == "mnist"
    assert "constant: 4.0" in said.out
    assert [*Path().iterdir()] == []


def test_a_dry_run_that_would_only_compile_shows_all_that_would_be_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command("--engine=none") == 0
    written = [Path("build", f"mnist.{kind}.yaml") for kind in ("kfp", "argo")]
    texts = [file.read_text() for file in written]
    for file in written:
        file.unlink()
    capsys.readouterr()
    assert command("--engine=none", "--dry_run") == 0
    said = capsys.readouterr()
    assert said.out == "---\n".join(texts)
    assert [each for each in yaml.safe_load_all(said.out) if each]
    assert said.err == f"this would run nowhere, and be written to {written[0]} and {written[1]}\n"
    assert [*Path("build").iterdir()] == []


def test_what_only_one_form_has_is_told_of_where_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--param=folder=x", "--param=num_epochs=3", "--set=train.seed=3"]
    for dry in ([], ["--dry_run"]):
        assert command("--engine=none", *words, *dry) == 0
        told = [line for line in capsys.readouterr().err.splitlines() if "only in" in line]
        assert told == ["--param folder: only in build/mnist.argo.yaml"]


def test_tasks_that_have_other_names_on_argo_are_told_of_where_nothing_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--engine=none", "--dry_run", "--set=train.num_workers=4", "--set=small.num_workers=4"]
    assert main(sweep, argo=sweep_on_argo, argv=words) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        "--set train.num_workers: only in build/sweep.kfp.yaml",
        "--set small.num_workers: only in build/sweep.argo.yaml",
    ]


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit, match="2"):
        command("--engin=none")


def test_a_task_of_the_same_name_without_such_an_input_stays_as_it_is() -> None:
    """A workflow may call what it does at the end after what it ends."""
    with Workflow(generate_name="twice-", entrypoint="main", on_exit="at-the-end") as workflow:
        with DAG(name="main"):
            argo.train(name="large", model_zoo="/zoo", model_def="m.m", training_data="/data")
        with DAG(name="at-the-end"):
            argo.clean_up(name="large")
    package = ArgoPackage(workflow, "twice")
    package.change(Change("large", "num_workers", "4"))
    templates = package.manifest["spec"]["templates"]
    training, cleaning = (
        arguments(task) for each in templates for task in each.get("dag", {}).get("tasks", [])
    )
    assert training["num_workers"] == "4"
    assert "num_workers" not in cleaning


@pytest.mark.parametrize("pipeline", [census, cifar10, mnist, own_image, sweep])
def test_judging_what_steps_are_given_changes_nothing(pipeline: BaseComponent) -> None:
    package = KfpPackage(pipeline)
    before = package.text()
    package.check()
    assert package.text() == before
