"""KFP's metadata store has room for one line between an artifact and a task: two inputs of one task that are
given the same artifact fail the run, before the task begins. So `train` needs a split dataset only once."""

import importlib
from collections import Counter
from pathlib import Path

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.steps import Folder
from elastic_runtime.steps import train as step

MODEL = Path(__file__).parents[3] / "model_zoo" / "mnist" / "mnist_functional_api.py"
PIPELINES = {"cifar10_allreduce": "cifar10"} | {
    name: name for name in ("census", "mnist", "own_image", "sweep")
}


@pytest.mark.parametrize("name", PIPELINES)
def test_no_task_is_given_one_artifact_twice(name):
    module = importlib.import_module(f"pipelines.{name}")
    spec = getattr(module, PIPELINES[name]).pipeline_spec
    dags = [owner.dag for owner in (spec.root, *spec.components.values())]
    tasks = [task for dag in dags for task in dag.tasks.values()]
    assert tasks
    for task in tasks:
        given = Counter(str(each) for each in task.inputs.artifacts.values())
        assert not [each for each, times in given.items() if times > 1], task.task_info.name


def test_a_validation_split_alone_is_a_part_of_the_training_dataset(monkeypatch, tmp_path):
    told = {}

    def enough(values):
        told.update(values)
        raise InputError("enough")

    monkeypatch.setattr(step, "_specification", enough)
    data = Folder(str(tmp_path), {"splits": {"train": 4, "test": 2}})
    outputs = {name: Folder(str(tmp_path / name)) for name in ("model", "metrics", "report", "pods")}
    with pytest.raises(InputError, match="enough"):
        step.train(
            **outputs,
            model_def=str(MODEL),
            training_dataset=data,
            training_split="train",
            validation_split="test",
        )
    assert told["training_data"] == f"{tmp_path}/train"
    assert told["validation_data"] == f"{tmp_path}/test"
