"""The training step, which is the job's master itself: it starts workers and parameter servers, and ends
with the job's verdict.

It may be killed and run again at any moment: the same arguments give the same job, whose journal and pods
are waiting, until its model is where the step's outputs are. Report, pod table and metrics are written all
along, so a run that fails has them too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.app import run
from elastic_runtime.platform.pods import EXIT_DRAINED
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.model_path import resolve
from elastic_runtime.steps.artifact import Artifact, address, location
from elastic_runtime.steps.in_cluster import (
    end_unless_continued,
    forget_job,
    is_in_cluster,
    leave_nothing_that_nobody_removes,
    options_of_the_pod,
    refuse_what_pods_do_not_see,
    settings_of_the_pod,
    take_the_masters_place,
)
from elastic_runtime.steps.job_name import job_name
from elastic_runtime.steps.job_outputs import JobOutputs
from elastic_runtime.steps.options import arguments, check_data, chosen
from elastic_runtime.steps.task_settings import TaskSettings, from_task, in_words, is_told

log = logging.getLogger(__name__)


class Trained(NamedTuple):
    """What later steps can be told as plain values."""

    steps: int
    best_metric: float


def train(
    *,
    model: Artifact,
    metrics: Artifact,
    report: Artifact,
    pods: Artifact,
    training_dataset: Artifact | None = None,
    training_split: str = "",
    validation_dataset: Artifact | None = None,
    validation_split: str = "",
    task_config: TaskSettings | None = None,
    **options: object,
) -> Trained:
    """Train a model; `options` are those of `JobSpec`, whose defaults they may repeat."""
    outputs = JobOutputs(model=model, metrics=metrics, report=report, pods=pods)
    try:
        values = chosen(options)
        splits = {"training_split": training_split, "validation_split": validation_split}
        datasets = {"training_dataset": training_dataset, "validation_dataset": validation_dataset}
        check_data(values | splits | datasets)
        values["job_name"] = job_name(str(values.get("job_name") or model.uri), given="job_name" in values)
        values |= from_task(task_config, values)
        if is_remote := _settled(values).platform == "kubernetes":
            if not is_told(task_config):
                values |= _from_own_pod(values)
            values |= options_of_the_pod(values, model=address(model))
        if validation_split and validation_dataset is None:  # KFP cannot give a task one artifact twice
            validation_dataset = training_dataset
        for name, dataset, split in (
            ("training_data", training_dataset, training_split),
            ("validation_data", validation_dataset, validation_split),
        ):
            if dataset is not None:
                place = values[name] = location(dataset, split, elsewhere=is_remote)
                if is_remote:
                    refuse_what_pods_do_not_see(place, str(values.get("volume", "")), where=name)
        spec = _specification(values)
        resolve(spec.model_zoo, spec.model_def)
        outputs.begin(spec)
        if is_remote:
            take_the_masters_place(spec)
        code = run(spec, outputs.show, in_step=is_in_cluster())
        goes_on = is_remote and code == EXIT_DRAINED and end_unless_continued(spec)
        if is_remote and code not in (0, EXIT_DRAINED):
            leave_nothing_that_nobody_removes(spec)
    except ElasticError as error:
        outputs.could_not_run(error)
        raise
    summary = outputs.end(code, goes_on=goes_on)
    if is_remote:
        forget_job(spec)
    return Trained(summary.version, outputs.best_metric)


def _from_own_pod(values: Mapping[str, object]) -> dict[str, object]:
    """What was set on the task, where KFP has put it on this step's pod and tells the step nothing of it."""
    found = settings_of_the_pod()
    if found is not None and (words := in_words(found, values)):
        log.info("the job's pods get, as this step has it: %s", words)
    return from_task(found, values)


def _settled(values: Mapping[str, object]) -> JobSpec:
    """What the options amount to, wherever the data turn out to be."""
    return parse("train", arguments({"training_data": "its artifact"} | dict(values))).spec


def _specification(values: Mapping[str, object]) -> JobSpec:
    parsed = parse("train", arguments(values))
    for notice in parsed.notices:
        log.info("notice: %s", notice)
    spec = parsed.spec
    return spec if spec.output else spec.model_copy(update={"output": f"{spec.run_dir}/model"})
