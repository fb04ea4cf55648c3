"""Argo's templates are made of the components; what is wrong with their use is told when it is compiled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hera.workflows import (
    DAG,
    Artifact,
    ClusterWorkflowTemplate,
    Parameter,
    Step,
    Steps,
    Task,
    Workflow,
    WorkflowTemplate,
)

from components import argo, train
from components.argo.__main__ import manifests
from components.argo.template import StepTemplate
from elastic_runtime.spec.flags import flags
from elastic_runtime.spec.job import JobSpec

MODEL = "mnist.mnist_functional_api.custom_model"
ROOT = Path(__file__).parents[3]
FILES = [*manifests()]
NAMES = [path.relative_to(ROOT).as_posix() for path, _ in FILES]


def template_of(text: str) -> dict:
    return yaml.safe_load(text)["spec"]["templates"][0]


@pytest.mark.parametrize(("path", "text"), FILES, ids=NAMES)
def test_p6_the_manifests_are_up_to_date(path: Path, text: str) -> None:
    assert path.read_text() == text, "run `make generate`"


@pytest.mark.parametrize(("path", "text"), FILES, ids=NAMES)
def test_p6_the_manifests_hold_only_fields_that_argo_4_has(path: Path, text: str) -> None:
    """Hera's models are those of Argo 4; what they do not know they drop, and it would be missing."""
    kind = ClusterWorkflowTemplate if path.parent.name == "cluster" else WorkflowTemplate
    known = kind.from_yaml(text)
    assert yaml.safe_load(known.to_yaml()) == yaml.safe_load(text)


@pytest.mark.parametrize("template", argo.TEMPLATES, ids=lambda template: template.name)
def test_steps_have_a_fixed_image_install_nothing_and_say_when_they_are_repeated(template) -> None:
    image = next(port for port in template.inputs if port.name == "image_name")
    assert re.fullmatch(r"\S+:\d[\w.]*", image.default)
    assert template.command == ["python", "-m", "elastic_runtime.steps"]
    assert not {"pip", "sh", "bash"} & {*template.command, *template.args}
    assert template.retry_strategy.retry_policy.value == "Always"
    assert template.retry_strategy.backoff.max_duration is None  # it would be the end of a long training
    for verdict in ("1", "2", "130"):
        assert f"'{verdict}'" in template.retry_strategy.expression
    assert " is invalid: " in template.retry_strategy.expression  # of a pod, and would be again


@pytest.mark.parametrize(("path", "text"), FILES, ids=NAMES)
def test_a_step_pulls_its_image_as_it_is_told_and_the_training_as_its_pods_do(path: Path, text: str) -> None:
    template = template_of(text)
    assert template["container"]["imagePullPolicy"] == "{{inputs.parameters.image_pull_policy}}"
    (policy,) = (p for p in template["inputs"]["parameters"] if p["name"] == "image_pull_policy")
    assert policy["default"] == ("Always" if "train" in path.name else "")
    assert {"Always", "IfNotPresent", "Never"} <= {*policy["enum"]}


def test_the_patch_of_the_pod_is_one_expression_to_its_end() -> None:
    """Argo takes the first two braces that close for it."""
    patch = argo.convert.pod_spec_patch
    assert patch.startswith("{{=")
    assert patch.index("}}") == len(patch) - 2


def test_a_training_that_has_succeeded_is_not_repeated_for_the_sake_of_its_outputs() -> None:
    again = {template.name: "'0'" not in template.retry_strategy.expression for template in argo.TEMPLATES}
    assert [name for name in again if not again[name]] == ["train"]


def test_only_steps_that_make_or_remove_pods_have_an_account_of_their_own() -> None:
    named = {template.name: template.service_account_name for template in argo.TEMPLATES}
    assert {name for name, account in named.items() if account} == {"train", "clean-up"}


def test_every_option_of_a_step_is_a_documented_parameter_with_its_words() -> None:
    ports = {port.name: port for port in argo.train.inputs if isinstance(port, Parameter)}
    for flag in flags(JobSpec):
        if flag.name in train.component_spec.inputs:
            assert ports[flag.name].description
            assert {*flag.choices} <= {*(ports[flag.name].enum or [])}
            assert f"--{flag.name}={{{{inputs.parameters.{flag.name}}}}}" in argo.train.args


def test_artifacts_that_people_look_at_are_single_files_whose_names_tell_what_they_are() -> None:
    made = [port for template in argo.TEMPLATES for port in template.outputs]
    names = {port.path.rpartition("/")[2] for port in made if not isinstance(port, Parameter)}
    assert {"metrics.json", "report.html", "pods.md", "samples.md", "classification.json"} <= names


def written(call) -> Workflow:
    with Workflow(name="w", entrypoint="main") as workflow, DAG(name="main"):
        call()
    return workflow


def test_a_task_takes_inputs_by_name_and_heras_own_settings() -> None:
    def tasks() -> None:
        data = argo.convert(name="data", format="mnist")
        dataset = data.get_artifact("dataset")
        argo.train(
            training_dataset=dataset, training_split="test", model_def=MODEL, num_workers=2, when="true"
        )

    spec = yaml.safe_load(written(tasks).to_yaml())["spec"]
    data, training = spec["templates"][0]["dag"]["tasks"]
    assert (data["name"], training["name"], training["when"]) == ("data", "train", "true")
    given = {each["name"]: each["value"] for each in training["arguments"]["parameters"]}
    assert given == {"training_split": "test", "model_def": MODEL, "num_workers": "2"}
    assert training["arguments"]["artifacts"][0]["from"] == "{{tasks.data.outputs.artifacts.dataset}}"
    assert [each["name"] for each in spec["templates"]] == ["main", "convert", "train"]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: argo.train(model_deff=MODEL), TypeError, "did you mean 'model_def'?"),
        (lambda: argo.train(num_workers=2), TypeError, "train() needs model_def"),
        (
            lambda: argo.train(model_def=MODEL, training_data="d", num_workers="many"),
            ValueError,
            "num_workers",
        ),
        (lambda: argo.train(model_def=MODEL, distribution_strategy="Both"), ValueError, "Both"),
        (lambda: argo.evaluate(model="m"), TypeError, "evaluate() needs dataset"),
        (
            lambda: argo.evaluate(model="m", dataset="d"),
            TypeError,
            "evaluate(): model is an artifact, as get_",
        ),
        (
            lambda: argo.convert(format=argo.convert(format="mnist", name="c").get_artifact("dataset")),
            TypeError,
            "convert(): format is no artifact",
        ),
        (lambda: argo.convert(form="csv"), TypeError, "did you mean 'format'?"),
        (lambda: argo.convert(on_error="stop"), ValueError, "one of fail, skip"),
        (
            lambda: argo.convert(format="mnist", image_pull_policy="Sometimes"),
            ValueError,
            "one of Always, If",
        ),
        (lambda: argo.convert(format="mnist", seed="x"), ValueError, "seed: got 'x' (give a whole number)"),
        (lambda: argo.convert(format="csv"), ValueError, "nothing says what to convert"),
        (lambda: argo.evaluate(model="m", dataset="d", minibatch_size="-1"), ValueError, "number >= 1"),
        (lambda: argo.predict(model="m", dataset="d", records_per_file="0"), ValueError, "less than 1"),
        (lambda: argo.clean_up(remove_files="yes"), ValueError, "one of true, false"),
        (lambda: argo.clean_up(job_name=""), ValueError, "clean-up(): job_name: no job is named"),
        (
            lambda: argo.build_image(repository="r.local/x", model_zoo="/z", platform="linux/arm46"),
            ValueError,
            "unknown platform 'linux/arm46' (did you mean 'linux/arm64'?)",
        ),
        (lambda: argo.convert(format="mnist", volume="claim=c"), ValueError, "did you mean 'claim_name'?"),
        (lambda: argo.convert(format="mnist", step_resource_request="cpus=1"), ValueError, "did you mean 'c"),
    ],
)
def test_what_is_wrong_is_told_when_the_workflow_is_compiled(call, error, said) -> None:
    with pytest.raises(error, match=re.escape(said)):
        written(call)


def evaluated(tasks: type[DAG | Steps], trains: dict[str, str], wires: dict[str, tuple[str, str]]) -> str:
    """A dataset, a training and an evaluation, whose artifacts come from there."""
    with Workflow(name="w", entrypoint="main") as workflow, tasks(name="main"):
        made = {"data": argo.convert(name="data", format="mnist")}
        dataset = made["data"].get_artifact("dataset")
        made["train"] = argo.train(model_def=MODEL, training_dataset=dataset, **trains)
        given = {port: made[task].get_artifact(output) for port, (task, output) in wires.items()}
        argo.evaluate(split="test", **given)
    return str(workflow.to_yaml())


WIRES = {"model": ("train", "model"), "dataset": ("data", "dataset")}


@pytest.mark.parametrize("tasks", [DAG, Steps])
@pytest.mark.parametrize(
    ("wires", "said"),
    [
        (
            {"model": ("data", "dataset")},
            "step evaluate: model is a Model, and data.dataset is a Dataset (did you mean 'train.model'?)",
        ),
        (
            {"dataset": ("train", "report")},
            "dataset is a Dataset, and train.report is a HTML (did you mean 'data.",
        ),
    ],
)
def test_an_artifact_of_another_kind_is_refused_with_what_would_be_of_this_one(tasks, wires, said) -> None:
    assert evaluated(tasks, {"training_split": "train"}, WIRES)
    with pytest.raises(ValueError, match=re.escape(said)):
        evaluated(tasks, {"training_split": "train"}, WIRES | wires)


@pytest.mark.parametrize("tasks", [DAG, Steps])
def test_a_part_that_convert_does_not_make_is_refused(tasks) -> None:
    for split, said in [
        ("trian", "there is no part 'trian' (did you mean 'train'?)"),
        ("", "are in parts: tr"),
    ]:
        with pytest.raises(ValueError, match=re.escape(said)):
            evaluated(tasks, {"training_split": split}, WIRES)


def test_what_steps_of_others_make_is_not_judged() -> None:
    elsewhere = Artifact(name="model", from_="{{tasks.theirs.outputs.artifacts.anything}}")
    data = Artifact(name="dataset", from_="{{tasks.theirs.outputs.artifacts.data}}")
    written(lambda: argo.evaluate(model=elsewhere, dataset=data, split="any"))


def test_an_artifact_that_a_step_does_not_make_is_refused_with_the_nearest() -> None:
    def tasks() -> None:
        argo.train(model_def=MODEL, training_data="/d", name="train")
        model = Artifact(name="model", from_="{{tasks.train.outputs.artifacts.modle}}")
        argo.evaluate(model=model, dataset=Artifact(name="dataset", from_="{{inputs.artifacts.data}}"))

    with pytest.raises(ValueError, match=r"model: train makes no artifact 'modle', did you mean 'model'\?"):
        written(tasks).to_yaml()


def training(name: str, **given: object) -> Task | Step:
    return argo.train(name=name, model_def=MODEL, training_data="/d", **given)


def workflow_of(tasks: type[DAG | Steps], *trainings: dict[str, object]) -> str:
    with Workflow(name="w", entrypoint="main") as workflow, tasks(name="main"):
        for number, given in enumerate(trainings):
            training(f"t{number}", **given)
    return str(workflow.to_yaml())


@pytest.mark.parametrize("tasks", [DAG, Steps])
def test_trainings_of_one_workflow_that_would_share_a_job_are_refused(tasks) -> None:
    with pytest.raises(ValueError, match=r"t1: t0 has the job '{{workflow.name}}', too"):
        workflow_of(tasks, {}, {})
    with pytest.raises(ValueError, match="t1: t0 has the job 'a', too"):
        workflow_of(tasks, {"job_name": "a"}, {"job_name": "a"})
    with pytest.raises(ValueError, match=r"t0: the job of each item is '{{workflow.name}}'"):
        workflow_of(tasks, {"with_items": ["a", "b"]})


@pytest.mark.parametrize("tasks", [DAG, Steps])
def test_trainings_of_one_workflow_may_have_a_job_each(tasks) -> None:
    each = "{{workflow.name}}-{{item}}"
    workflow_of(tasks, {}, {"job_name": "a"}, {"job_name": each, "with_items": ["b", "c"]})
    workflow_of(tasks, {"when": "{{workflow.parameters.n}} > 1"}, {"when": "{{workflow.parameters.n}} <= 1"})


def test_what_is_known_only_when_it_runs_is_not_judged_before() -> None:
    later = "{{workflow.parameters.workers}}"
    written(lambda: argo.train(model_def=MODEL, training_data="/d", num_workers=later))
    written(lambda: argo.clean_up(remove_files=later))
    written(lambda: argo.convert(format=later, seed=later, volume=later, step_resource_request=later))
    model, data = (Artifact(name=name, from_=f"{{{{inputs.artifacts.{name}}}}}") for name in ("m", "d"))
    written(lambda: argo.predict(model=model, dataset=data, records_per_file=later, minibatch_size="8"))
    written(lambda: argo.build_image(repository=later, model_zoo=later, insecure_registries=later))


def test_a_template_can_be_given_what_hera_gives_any_container() -> None:
    from dataclasses import replace

    from hera.workflows import Resources
    from hera.workflows.models import ImagePullPolicy

    given = {"resources": Resources(memory_request="8Gi"), "image_pull_policy": ImagePullPolicy.never}
    larger = replace(argo.convert, name="large", **given)
    assert isinstance(larger, StepTemplate)
    spec = yaml.safe_load(written(lambda: larger(format="mnist")).to_yaml())["spec"]
    container = spec["templates"][1]["container"]
    assert (container["resources"]["requests"], container["imagePullPolicy"]) == ({"memory": "8Gi"}, "Never")
