"""A pipeline of nothing but the published `component.yaml` files, as users write it who have only those."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.job.harness import ZOO
from tests.process.pipelines.step_run import without_engine

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

COMPONENTS = Path(__file__).parents[3] / "components"
PIPELINE = """
import sys
from pathlib import Path

from kfp import dsl, local
from kfp.components import load_component_from_file

folder, zoo, source = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
steps = ("convert", "train", "evaluate", "clean_up")
convert, train, evaluate, clean_up = (
    load_component_from_file(str(folder / step / "component.yaml")) for step in steps
)
model = {"model_zoo": zoo, "model_def": "tiny.custom_model"}


@dsl.pipeline(name="loaded")
def pipeline():
    with dsl.ExitHandler(clean_up(job_name="loaded")):
        data = convert(source=source, split="train=0.8,test=0.2").outputs["dataset"]
        trained = train(
            job_name="loaded",
            training_dataset=data,
            training_split="train",
            num_workers=1,
            minibatch_size=16,
            distribution_strategy="Local",
            **model,
        )
        evaluate(model=trained.outputs["model"], dataset=data, split="test")


local.init(local.SubprocessRunner(use_venv=False), pipeline_root="outputs")
pipeline()
"""


def written(folder: Path) -> Path:
    """A question that a straight line answers, as lines of JSON."""
    rows = [[(-1) ** n * (n % 7 + place) / 8 for place in range(8)] for n in range(200)]
    lines = [json.dumps({"x": row, "y": int(sum(row) > 0)}) for row in rows]
    file = folder / "rows.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_p2_components_loaded_from_their_files_train_and_evaluate(tmp_path: Path) -> None:
    words = [str(COMPONENTS), str(ZOO), str(written(tmp_path))]
    ended = subprocess.run(
        [sys.executable, "-c", PIPELINE, *words],
        cwd=tmp_path,
        env=without_engine(tmp_path),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-5000:]
    [outputs] = (tmp_path / "outputs").iterdir()
    told = {step.name: json.loads((step / "executor_output.json").read_text()) for step in outputs.iterdir()}
    assert told.keys() == {"convert", "train", "evaluate", "clean-up"}
    splits = told["convert"]["artifacts"]["dataset"]["artifacts"][0]["metadata"]["splits"]
    assert sum(splits.values()) == told["convert"]["parameterValues"]["Output"] == 200
    trained, judged = (
        told[step]["artifacts"]["metrics"]["artifacts"][0]["metadata"] for step in ("train", "evaluate")
    )
    assert (trained["records"], judged["records"]) == (splits["train"], splits["test"])
    assert told["clean-up"]["parameterValues"]["Output"] == []
