"""P2 and P3: the components as they are published, and how a pipeline that uses them wrongly is refused."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import compiler, dsl, kubernetes
from kfp.components import load_component_from_file
from kfp.dsl.types.type_utils import InconsistentTypeException

import components
import elasticdl_components

ROOT = Path(__file__).parents[3]
FOLDERS = sorted(path.parent for path in (ROOT / "components").glob("*/component.py"))
NAMES = [folder.name for folder in FOLDERS]
REFUSED = (TypeError, ValueError, InconsistentTypeException)


def compiled(write: Callable[[], None], folder: Path) -> Any:
    """The specification that KFP is given of the pipeline which the function writes."""
    file = folder / "pipeline.yaml"
    compiler.Compiler().compile(dsl.pipeline(name="test")(write), str(file))
    return next(yaml.safe_load_all(file.read_text()))


def everything() -> None:
    left = components.clean_up(job_name="j")
    with dsl.ExitHandler(left):
        components.build_image(repository="registry.local/models", model_zoo="s3://bucket/zoo")
        data = components.convert(source="s3://bucket/data.csv").outputs["dataset"]
        trained = components.train(model_def="a.b", training_dataset=data)
        trained.set_cpu_request("2").set_memory_limit("8Gi").set_env_variable("A", "b")
        components.evaluate(model=trained.outputs["model"], dataset=data)
        components.predict(model=trained.outputs["model"], dataset=data)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(everything, tmp_path_factory.mktemp("everything"))


def executors(spec: Any) -> dict[str, Any]:
    made = spec["deploymentSpec"]["executors"]
    return {name.removeprefix("exec-"): executor["container"] for name, executor in made.items()}


def test_p2_what_is_generated_is_up_to_date() -> None:
    check = [sys.executable, "-m", "components.generate", "--check"]
    ended = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_p2_each_component_loads_back_with_all_its_inputs_and_outputs(name: str) -> None:
    loaded = load_component_from_file(str(ROOT / "components" / name / "component.yaml"))
    made = getattr(components, name).component_spec
    assert loaded.component_spec.inputs.keys() == made.inputs.keys()
    assert (loaded.component_spec.outputs or {}).keys() == (made.outputs or {}).keys()


@pytest.mark.parametrize("name", NAMES)
def test_each_input_and_output_is_explained(name: str) -> None:
    page = (ROOT / "components" / name / "README.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows
    assert [row for row in rows if not row.split("|")[-2].strip()] == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_worker": 2}, "has no input 'num_worker', did you mean 'num_workers'"),
        ({"num_workers": "two"}, "num_workers"),
        ({"num_workers": -1}, "--num_workers: got '-1' .give a whole number >= 0"),
        ({"distribution_strategy": "Allreduce"}, "did you mean 'AllreduceStrategy'"),
        ({"shuffle_shards": 3}, "shuffle_shards"),
        ({"base_image": "python"}, "has no input 'base_image'"),
    ],
)
def test_p2_a_wrong_argument_is_refused_when_the_pipeline_is_compiled(
    wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    def pipeline() -> None:
        components.train(**({"model_def": "a.b", "training_data": "/data"} | wrong))

    with pytest.raises(REFUSED, match=said):
        compiled(pipeline, tmp_path)


def test_p2_a_wrong_argument_is_refused_beside_one_that_only_the_run_will_know(tmp_path: Path) -> None:
    def pipeline(num_epochs: int = 2) -> None:
        components.train(
            model_def="a.b", training_data="/d", num_epochs=num_epochs, distribution_strategy="Allreduce"
        )

    with pytest.raises(REFUSED, match="did you mean 'AllreduceStrategy'"):
        compiled(pipeline, tmp_path)


def test_p2_values_are_not_judged_together_while_some_are_unknown(tmp_path: Path) -> None:
    def pipeline(num_workers: int = 8) -> None:
        components.train(model_def="a.b", training_data="/d", num_workers=num_workers, min_workers=4)

    assert compiled(pipeline, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"format": "cvs"}, "format: unknown format 'cvs' .did you mean 'csv'"),
        ({"format": "mnits"}, "format: unknown format 'mnits' .did you mean 'mnist'"),
        ({"format": "csv", "split": "train=0.9"}, "the shares add up to 0.9"),
        ({"format": "csv", "on_error": "skp"}, "did you mean 'skip'"),
        ({"format": "csv", "records_per_file": 0}, "records_per_file=0 is less than 1"),
        ({"format": "csv", "records_per_file": "few"}, "records_per_file: got 'few' .give a whole number"),
        ({"format": "csv", "schema": "age:itn"}, "unknown type 'itn' of 'age' .did you mean 'int'"),
        ({"format": "images", "image_size": "28"}, "image_size '28' is not HEIGHTxWIDTH"),
        ({"format": "csv", "image_mode": "RGB"}, "image_mode is for images, not for csv"),
        ({"format": "mnist", "split": "a=1"}, "the format mnist has a split of its own"),
    ],
)
def test_p2_a_wrong_conversion_is_refused_when_the_pipeline_is_compiled(
    wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    def pipeline(source: str = "/data") -> None:
        components.convert(source=source, **wrong)

    with pytest.raises(REFUSED, match=said):
        compiled(pipeline, tmp_path)


def test_p2_a_conversion_of_nothing_or_of_two_things_is_refused(tmp_path: Path) -> None:
    def nothing() -> None:
        components.convert(format="csv")

    def two() -> None:
        data = components.convert(format="mnist").outputs["dataset"]
        components.convert(source="/data", source_dataset=data)

    def known_later(source: str, format: str) -> None:  # noqa: A002 - as users call it
        components.convert(source=source)
        components.convert(format=format)

    for pipeline, said in ((nothing, "nothing says what to convert"), (two, "both source and source_dat")):
        with pytest.raises(REFUSED, match=said):
            compiled(pipeline, tmp_path)
    assert compiled(known_later, tmp_path)


@pytest.mark.parametrize(
    ("step", "wrong", "said"),
    [
        ("evaluate", {"minibatch_size": -1}, "--minibatch_size: got '-1' .give a whole number >= 1"),
        ("evaluate", {"minibatch_sise": 8}, "did you mean 'minibatch_size'"),
        ("evaluate", {"model_params": "units"}, "--model_params"),
        ("evaluate", {"eval_metrics_fn": "my metrics"}, "--eval_metrics_fn: got 'my metrics'"),
        ("predict", {"minibatch_size": "many"}, "--minibatch_size: got 'many' .give a whole number"),
        ("predict", {"records_per_file": 0}, "records_per_file=0 is less than 1"),
        ("predict", {"feed": "1st"}, "--feed: got '1st'"),
        ("clean_up", {"job_name": " "}, "job_name: no job is named"),
        ("clean_up", {"job_name": "j", "remove_file": True}, "did you mean 'remove_files'"),
        ("build_image", {"repository": "https://team/x"}, "'https://team/x': is no name of an image"),
        ("build_image", {"repository": f"team/x@sha256:{'0' * 64}"}, "a digest is what comes out"),
        ("build_image", {"base_image": "Team/x"}, "'Team/x': is no name of an image"),
        ("build_image", {"platform": "linux/amd46"}, "unknown platform 'linux/amd46' .did you mean 'linux/a"),
        ("build_image", {"insecure_registries": "http://r:1"}, "'http://r:1' is no registry"),
        ("build_image", {"insecure_registries": "r.local:5000, r"}, "'r' is no registry"),
        ("build_image", {"model_zoo": ""}, "model_zoo: no model zoo is named"),
    ],
)
def test_p2_what_is_wrong_with_a_step_whatever_it_is_given_is_refused_when_the_pipeline_is_compiled(
    step: str, wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    def pipeline() -> None:
        data = components.convert(source="/d.csv").outputs["dataset"]
        model = components.train(model_def="a.b", training_dataset=data).outputs["model"]
        right = {
            "evaluate": {"model": model, "dataset": data},
            "predict": {"model": model, "dataset": data},
            "clean_up": {"job_name": "j"},
            "build_image": {"repository": "registry.local/team/x", "model_zoo": "/zoo"},
        }
        getattr(components, step)(**(right[step] | wrong))

    with pytest.raises(REFUSED, match=said):
        compiled(pipeline, tmp_path)


@pytest.mark.parametrize(
    ("made", "given", "said"),
    [
        (
            {"format": "mnist"},
            {"training_split": "trian"},
            "training_split: there is no part 'trian' .* 'train'",
        ),
        ({"format": "mnist"}, {}, "training_split: the data are in parts: train, test .name the one to read"),
        (
            {"source": "/d", "split": "a=0.9,b=0.1"},
            {"training_split": "a", "validation_split": "test"},
            "validation_split: there is no part 'test' .known: a, b",
        ),
    ],
)
def test_p2_a_part_that_the_step_before_does_not_make_is_refused_when_the_pipeline_is_compiled(
    made: dict[str, str], given: dict[str, str], said: str, tmp_path: Path
) -> None:
    def pipeline() -> None:
        data = components.convert(**made).outputs["dataset"]
        components.train(model_def="a.b", training_dataset=data, **given)

    with pytest.raises(REFUSED, match=said):
        compiled(pipeline, tmp_path)


def test_p2_data_that_are_named_twice_are_refused_when_the_pipeline_is_compiled(tmp_path: Path) -> None:
    def pipeline(place: str = "/d") -> None:
        data = components.convert(source="/d").outputs["dataset"]
        components.train(model_def="a.b", training_data=place, training_dataset=data)
        components.train(model_def="a.b", training_data="/d", training_dataset=data)

    with pytest.raises(REFUSED, match=r"train\(\): both training_data and training_dataset are given"):
        compiled(pipeline, tmp_path)


def test_p2_a_part_of_a_dataset_that_is_not_known_yet_is_not_judged(tmp_path: Path) -> None:
    @dsl.component
    def convert(split: str, dataset: dsl.Output[dsl.Dataset]) -> None: ...

    def pipeline(kind: str, shares: str, part: str) -> None:
        for task in (
            convert(split="in two"),
            components.convert(format=kind),
            components.convert(source="/d", split=shares),
            components.convert(source="/d"),  # may be one that lies there in parts
        ):
            components.train(model_def="a.b", training_dataset=task.outputs["dataset"], training_split="a")
        whole = components.convert(format="mnist").outputs["dataset"]
        components.train(model_def="a.b", training_dataset=whole, training_split=part)

    assert compiled(pipeline, tmp_path)


def test_p2_what_only_the_run_will_know_is_not_judged_before(tmp_path: Path) -> None:
    def pipeline(job: str, zoo: str, platform: str, size: int) -> None:
        components.clean_up(job_name=job)
        components.build_image(repository=job, model_zoo=zoo, platform=platform, base_image=job)
        data = components.convert(source="/d.csv").outputs["dataset"]
        model = components.train(model_def="a.b", training_dataset=data).outputs["model"]
        components.predict(model=model, dataset=data, minibatch_size=size, records_per_file=size)

    assert compiled(pipeline, tmp_path)


def test_a_whole_number_will_do_where_any_number_does(tmp_path: Path) -> None:
    def pipeline() -> None:
        components.train(model_def="a.b", training_data="/data", lease_timeout=60)

    assert compiled(pipeline, tmp_path)


def test_p2_an_artifact_of_another_kind_is_refused(tmp_path: Path) -> None:
    def pipeline() -> None:
        data = components.convert(source="/data.csv").outputs["dataset"]
        components.evaluate(model=data, dataset=data)

    with pytest.raises(REFUSED, match=r"system\.Dataset.*system\.Model"):
        compiled(pipeline, tmp_path)


def test_p2_training_needs_a_model_and_data(tmp_path: Path) -> None:
    def no_model() -> None:
        components.train(training_data="/data")

    def no_data() -> None:
        components.train(model_def="a.b")

    for pipeline, said in ((no_model, "model_def"), (no_data, "training_data")):
        with pytest.raises(REFUSED, match=said):
            compiled(pipeline, tmp_path)


def test_p3_nothing_is_installed_when_a_step_starts(spec: Any) -> None:
    for name, container in executors(spec).items():
        text = " ".join([*container["command"], *container.get("args", [])])
        assert "pip install" not in text, name
        assert "kfp.dsl.executor_main" in text


def test_p3_the_image_is_fixed_and_a_task_may_have_another(spec: Any, tmp_path: Path) -> None:
    images = {container["image"] for container in executors(spec).values()}
    assert images == {"elasticdl/elasticdl:1.0.0"}

    def other() -> None:
        components.convert(source="/data.csv").set_container_image("registry.local/elasticdl:2")

    [container] = executors(compiled(other, tmp_path)).values()
    assert container["image"] == "registry.local/elasticdl:2"


def test_everything_has_every_component(spec: Any) -> None:
    assert {name.replace("-", "_") for name in executors(spec)} == set(NAMES)


def test_the_docs_train_in_the_image_that_the_step_before_has_made(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "images.md").read_text().partition("## Without a builder")[2]
    code = "".join(map(textwrap.dedent, re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]))
    names = {"kubernetes": kubernetes, "train": components.train, "build_image": components.build_image}
    spec = compiled(lambda: exec(code, names), tmp_path)
    image = "pipelinechannel--build-image-Output"
    assert executors(spec)["train"]["image"] == f"{{{{$.inputs.parameters['{image}']}}}}"
    given = spec["root"]["dag"]["tasks"]["train"]["inputs"]["parameters"]
    made = {"outputParameterKey": "Output", "producerTask": "build-image"}
    assert given[image]["taskOutputParameter"] == given["image_name"]["taskOutputParameter"] == made


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_step_that_is_never_cached_says_that_its_file_cannot_say_so(name: str) -> None:
    told = "`set_caching_options(False)`" in (ROOT / "components" / name / "README.md").read_text()
    assert told == (not getattr(components, name).cached)


def test_p3_training_building_and_cleaning_up_are_never_cached(spec: Any) -> None:
    root = spec["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    cached = {name: task["cachingOptions"].get("enableCache", False) for name, task in root.items()}
    never = {"build-image": False, "train": False}
    assert cached == never | {"convert": True, "evaluate": True, "predict": True}
    last = spec["root"]["dag"]["tasks"]["clean-up"]
    assert not last["cachingOptions"].get("enableCache", False)


def test_p3_what_is_set_on_the_training_task_is_the_steps_and_its_pods(spec: Any) -> None:
    """Workers run in the step itself unless an image is named."""
    passed = spec["components"]["comp-train"]["taskConfigPassthroughs"]
    assert {entry["field"]: entry.get("applyToTask", False) for entry in passed} == {
        "RESOURCES": True,
        "KUBERNETES_AFFINITY": True,
        "KUBERNETES_NODE_SELECTOR": True,
        "KUBERNETES_TOLERATIONS": True,
        "ENV": True,
        "KUBERNETES_VOLUMES": True,
    }
    inputs = spec["components"]["comp-train"]["inputDefinitions"]["parameters"]
    assert inputs["task_config"]["parameterType"] == "TASK_CONFIG"


def test_both_names_of_the_package_give_the_same_components() -> None:
    assert components.__all__ == elasticdl_components.__all__
    for name in components.__all__:
        ours, installed = (getattr(package, name) for package in (components, elasticdl_components))
        assert ours.component_spec == installed.component_spec
