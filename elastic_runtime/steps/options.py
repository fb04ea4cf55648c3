"""Which options of `JobSpec` the training step takes, and from its arguments to a command line.

A pipeline engine passes every input, chosen or not; only what differs from its default was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elastic_runtime.errors import InputError
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.flags import Flag, flags
from elastic_runtime.spec.job import JobSpec

DATASETS = ("training_dataset", "validation_dataset")
_NOT_JUDGED = (*DATASETS, "training_split", "validation_split", "task_config", "job_name")

NOT_OF_A_STEP = {
    "base_image": "the step build_image builds images",
    "docker_image_repository": "the step build_image builds images",
    "extra_pypi_index": "the step build_image builds images",
    "yaml": "there is nothing to submit: the step is the job's master",
    "dry_run": "there is nothing to submit: the step is the job's master",
    "dry_run_format": "there is nothing to submit: the step is the job's master",
    "detach": "the step ends with the job",
    "restart": "a repeated step goes on with its job",
    "image_pull_secret": "the job's pods are pulled with those of the step's own pod",
    "namespace": "the job runs where the step runs",
    "port": "any that is free, or the one of the job's service",
    "master_resource_request": "the step's pod gets what is set on the task",
    "master_resource_limit": "the step's pod gets what is set on the task",
    "master_pod_priority": "the step's pod is made by the pipeline's engine",
    "force_use_kube_config_file": "the step runs in the cluster, or needs none",
}


def of_a_step() -> tuple[Flag, ...]:
    """The options of the training step, in the order of their declaration."""
    return tuple(
        flag for flag in flags(JobSpec) if "train" in flag.extra.takes and flag.name not in NOT_OF_A_STEP
    )


def default_of(flag: Flag) -> Any:
    """What an engine passes where nothing was chosen; it has no None, so 0 stands for that."""
    default = flag.default("train")
    return 0 if default is None else default


def chosen(options: Mapping[str, object]) -> dict[str, object]:
    """Those that differ from their defaults; what is no option is kept, to be refused where it is read."""
    defaults = {flag.name: default_of(flag) for flag in of_a_step()}
    return {
        name: value
        for name, value in options.items()
        if value is not None and not (name in defaults and value == defaults[name])
    }


def arguments(values: Mapping[str, object]) -> list[str]:
    """The same as a command line."""
    return [f"--{name}={text(value)}" for name, value in values.items()]


def check(given: Mapping[str, object]) -> None:
    """Refuse what is known to be wrong before anything runs.

    If some values are known only then, the others are judged one by one, and not by what they mean together.
    """
    check_data(given)
    judged = {name: value for name, value in given.items() if name not in _NOT_JUDGED}
    plain = known(judged)
    if len(plain) < len(judged):
        JobSpec.check_each({name: text(value) for name, value in chosen(plain).items()})
        return
    data = {name.replace("dataset", "data"): "its artifact" for name in DATASETS if name in given}
    parse("train", arguments({"job_name": "unnamed"} | chosen(plain) | data))


def check_data(given: Mapping[str, object]) -> None:
    """Refuse data that are named twice, and a part of a dataset that is not given."""
    plain = known(given)
    has_training, has_validation = (given.get(name) is not None for name in DATASETS)
    part = plain.get("validation_split")
    for data, other, is_given in (
        ("training_data", "training_dataset", has_training),
        ("validation_data", "validation_dataset", has_validation),
        ("validation_data", "validation_split", part and has_training),
    ):
        if plain.get(data) and is_given:
            raise InputError(f"both {data} and {other} are given", remedy="leave one of them out")
    for split, has_dataset, data in (
        ("training_split", has_training, "training_data"),
        ("validation_split", has_training or has_validation, "validation_data"),
    ):
        if plain.get(split) and not has_dataset:
            remedy = f"name the part's own folder or URI as {data}"
            raise InputError("there is no dataset of which it is a part", where=split, remedy=remedy)


def known(given: Mapping[str, object]) -> dict[str, object]:
    """Those that are no place of a pipeline's parameter or of what an earlier step will make."""
    return {
        name: value
        for name, value in given.items()
        if isinstance(value, str | int | float) and "{{" not in str(value)
    }


def text(value: object) -> str:
    """A value as it is written on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
