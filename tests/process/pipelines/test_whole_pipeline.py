"""P1, P4 and P5: `python pipelines/mnist.py` alone, where there is no engine and no Docker: kfp.local carries
out every step, and each leaves what people and the next one need.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import took
from tests.process.pipelines.step_run import without_engine

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the command was given."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def ended(folder: Path) -> subprocess.CompletedProcess[str]:
    """The command, which has succeeded."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(ROOT / "pipelines" / "mnist.py")],
        cwd=folder,
        env=without_engine(folder),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    took.note("`python pipelines/mnist.py` here, beside other tests", time.monotonic() - began)
    return done


@pytest.fixture(scope="module")
def outputs(folder: Path, ended: subprocess.CompletedProcess[str]) -> Path:
    """What the pipeline has left."""
    [found] = (folder / "build" / "outputs").iterdir()
    return found


def metadata(outputs: Path, task: str, artifact: str) -> dict[str, Any]:
    """What KFP is told of an output."""
    told = json.loads((outputs / task / "executor_output.json").read_text())
    found: dict[str, Any] = told["artifacts"][artifact]["artifacts"][0]["metadata"]
    return found


def value(outputs: Path, task: str, name: str) -> Any:
    told = json.loads((outputs / task / "executor_output.json").read_text())
    return told["parameterValues"][name]


def test_p1_the_command_alone_compiles_for_both_engines_and_tells_what_came_of_the_run(
    folder: Path, ended: subprocess.CompletedProcess[str], outputs: Path
) -> None:
    assert {path.name for path in (folder / "build").glob("*.yaml")} == {"mnist.kfp.yaml", "mnist.argo.yaml"}
    assert "runs on this machine (no cluster is configured" in ended.stderr
    for step, name in (("train", "model"), ("train", "report"), ("evaluate", "report")):
        [place] = re.findall(rf"^{step} +{name}: (.*)$", ended.stdout, re.M)
        assert (folder / place).samefile(outputs / step / name)
    assert len(re.findall(r"^(?:train|evaluate) +metrics: .*\n +.*accuracy 0\.\d+", ended.stdout, re.M)) == 2
    assert ended.stdout.splitlines()[-1].startswith("mnist succeeded in ")


def test_p4_the_dataset_says_how_many_records_it_has_and_shows_some(outputs: Path) -> None:
    told = metadata(outputs, "convert", "dataset")
    assert told["splits"] == {"train": 6000, "test": 1000}
    assert (told["format"], told["records"], told["shapes"]) == ("RecordIO", 7000, {"image": "28x28x1"})
    assert len(list((outputs / "convert" / "dataset" / "train").iterdir())) == 2
    page = (outputs / "convert" / "samples").read_text()
    assert "| train | 6 000 | 2 |" in page
    assert "label 5" in page
    assert page.count("█") > 50


def test_p4_training_gives_model_metrics_report_pods_and_values(outputs: Path) -> None:
    folder, told = outputs / "train", metadata(outputs, "train", "metrics")
    assert (folder / "model" / "model.keras").is_file()
    assert (folder / "model" / "saved_model" / "saved_model.pb").is_file()
    assert told["steps"] == value(outputs, "train", "steps") >= 30
    assert value(outputs, "train", "best_metric") >= told["accuracy"] > 0.2
    assert told["records"] == 2 * 6000
    assert told["most_workers"] == 2
    assert {"worker-0", "worker-1", "ps-0"} <= set(
        re.findall(r"^\| (\S+) \|", (folder / "pods").read_text(), re.M)
    )


def test_p4_evaluation_finds_what_the_job_found(outputs: Path) -> None:
    told = metadata(outputs, "evaluate", "metrics")
    assert told["accuracy"] == pytest.approx(metadata(outputs, "train", "metrics")["accuracy"], abs=0.002)
    assert told["records"] == 1000
    scores = metadata(outputs, "evaluate", "classification")
    matrix = np.array([row["row"] for row in scores["confusionMatrix"]["rows"]])
    assert matrix.shape == (10, 10)
    assert matrix.sum() == 1000
    assert matrix.trace() / 1000 == pytest.approx(told["accuracy"], abs=1e-6)
    curve = scores["confidenceMetrics"]
    assert 10 < len(curve) <= 100
    assert all(0 <= point[name] <= 1 for point in curve for name in point)


@pytest.mark.parametrize("task", ["train", "evaluate"])
def test_p5_a_report_has_no_script_and_needs_nothing_from_elsewhere(outputs: Path, task: str) -> None:
    page = (outputs / task / "report").read_text()
    assert "<svg" in page
    assert re.findall(r"<script|javascript:|\son\w+=|data:|https?://|@import|url\(|<link|<img", page) == []


def test_the_exit_handler_finds_nothing_left(outputs: Path) -> None:
    assert value(outputs, "clean-up", "Output") == []
