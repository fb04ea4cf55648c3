"""The training step's options are those of JobSpec, and wrong ones are refused with the nearest right one."""

from __future__ import annotations

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.spec.arguments import parse
from elastic_runtime.steps import options


def test_an_option_is_the_steps_or_there_is_a_reason_why_not() -> None:
    from elastic_runtime.spec.flags import flags
    from elastic_runtime.spec.job import JobSpec

    ours = {flag.name for flag in options.of_a_step()}
    trains = {flag.name for flag in flags(JobSpec) if "train" in flag.extra.takes}
    assert ours | options.NOT_OF_A_STEP.keys() == trains
    assert not ours & options.NOT_OF_A_STEP.keys()


def test_all_defaults_together_choose_nothing() -> None:
    assert options.chosen({flag.name: options.default_of(flag) for flag in options.of_a_step()}) == {}


def test_what_was_chosen_reads_the_same_from_a_command_line() -> None:
    given = {
        "job_name": "j",
        "model_def": "a.b",
        "training_data": "/data, with blanks",
        "num_workers": 3.0,  # as engines pass whole numbers
        "use_async": True,
        "shuffle_shards": False,
        "lease_timeout": 2.5,
        "num_ps_pods": 0,
    }
    spec = parse("train", options.arguments(options.chosen(given))).spec
    assert (spec.num_workers, spec.use_async, spec.shuffle_shards) == (3, True, False)
    assert (spec.lease_timeout, spec.num_ps_pods) == (2.5, 1)
    assert spec.training_data == "/data, with blanks"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"distribution_strategy": "AllReduce"}, "did you mean 'AllreduceStrategy'"),
        ({"num_workers": -1}, "a whole number >= 0"),
        ({"min_workers": 5, "num_workers": 2}, "min_workers <= num_workers"),
        ({"worker_resource_request": "cpus=1"}, "did you mean 'cpu'"),
        ({"training_data": ""}, "train needs --training_data"),
    ],
)
def test_what_is_wrong_is_known_when_the_pipeline_is_compiled(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        options.check({"model_def": "a.b", "training_data": "/data"} | wrong)


def test_a_dataset_is_training_data() -> None:
    options.check({"model_def": "a.b", "training_dataset": object(), "training_split": "train"})


DATASET = object()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"training_data": "/d", "training_dataset": DATASET}, "both training_data and training_dataset are"),
        (
            {"training_dataset": DATASET, "validation_data": "/d", "validation_dataset": DATASET},
            "both validation_data and validation_dataset are given",
        ),
        (
            {"training_dataset": DATASET, "validation_data": "/d", "validation_split": "test"},
            "both validation_data and validation_split are given",
        ),
        ({"training_data": "/d", "training_split": "a"}, "training_split: there is no dataset of which"),
        ({"training_data": "/d", "validation_split": "a"}, "validation_split: there is no dataset of which"),
        (
            {"training_data": "/d", "training_split": "a", "validation_dataset": DATASET},
            "training_split: .*name the part's own folder or URI as training_data",
        ),
    ],
)
@pytest.mark.parametrize("unknown", [{}, {"num_workers": object()}])
def test_data_that_would_be_passed_over_are_refused(
    given: dict[str, object], said: str, unknown: dict[str, object]
) -> None:
    with pytest.raises(InputError, match=said):
        options.check({"model_def": "a.b"} | given | unknown)


@pytest.mark.parametrize(
    "given",
    [
        {"training_dataset": DATASET, "training_split": "train", "validation_split": "test"},
        {"training_dataset": DATASET, "training_split": "train", "validation_data": "/d"},
        {"training_data": "/d", "validation_dataset": DATASET, "validation_split": "test"},
        {"training_data": "/d", "validation_data": "/d", "training_split": "", "validation_split": ""},
        {"training_data": "{{inputs.parameters.d}}", "training_dataset": DATASET},
    ],
)
def test_data_that_are_named_once_each_are_taken(given: dict[str, object]) -> None:
    options.check({"model_def": "a.b"} | given)


def test_what_is_known_only_when_the_pipeline_runs_is_not_judged_before() -> None:
    options.check({"model_def": "a.b", "num_workers": object(), "min_workers": 9})
    options.check({"model_def": "a.b", "num_workers": "{{channel:task=;name=n}}", "min_workers": 9})


def test_a_job_named_by_its_run_is_judged_by_all_else() -> None:
    given = {"model_def": "a.b", "training_data": "/data", "job_name": "mnist-{{$.run}}"}
    with pytest.raises(InputError, match="--num_workers"):
        options.check(given | {"num_workers": -1})


def test_a_default_that_is_given_counts_as_not_given_unless_it_is_written_in_another_way() -> None:
    default = {"worker_resource_request": "cpu=1,memory=4096Mi"}
    other = {"worker_resource_request": "cpu=1,memory=4Gi"}
    assert options.chosen(default) == {}, "an engine passes it, too, if nobody has given it"
    assert options.chosen(other) == other
