"""P1: a pipeline's command where there is no engine, from the README's own 25 lines to the exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime.steps.clean_up import clean_up
from tests.process.pipelines.step_run import without_engine

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
MODEL, PIPELINE = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """By what tests start, also where they run in a shell's background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the README has its reader save."""
    assert len(PIPELINE.splitlines()) <= 25
    (tmp_path / "digits.py").write_text(MODEL)
    (tmp_path / "digits_pipeline.py").write_text(PIPELINE)
    return tmp_path


COMMAND = [sys.executable, "digits_pipeline.py"]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env=without_engine(folder),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_p1_a_users_pipeline_of_25_lines_runs_here_and_tells_its_results(folder: Path) -> None:
    ended = run(folder, "--set=train.max_step=30", "--set=train.num_workers=1")
    assert ended.returncode == 0, ended.stderr[-5000:]
    assert "runs on this machine (no cluster is configured" in ended.stderr
    told = dict(re.findall(r"^(\w+ +\w+): (.*)$", ended.stdout, re.M))
    told = {" ".join(name.split()): value for name, value in told.items()}
    assert 30 <= int(told["train steps"]) < 94  # which would be all the records
    for step, name, file in (("train", "model", "model.keras"), ("train", "report", "")):
        assert Path(folder, told[f"{step} {name}"], file).exists()
    assert re.search(r"^evaluate +metrics: .*\n +.*accuracy 0\.\d+", ended.stdout, re.M)
    assert ended.stdout.splitlines()[-1].startswith("digits succeeded in ")
    assert len([*folder.glob("runs/*/logs/*-worker-*.log")]) == 1


def test_a_pipeline_that_fails_here_fails_its_command(folder: Path) -> None:
    ended = run(folder, "--set=train.loss=no_such_loss")
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("error: the pipeline failed: train: "), last
    assert "no_such_loss" in last
    assert "convert    records: 7000" in ended.stdout


def test_ctrl_c_ends_the_step_that_runs_and_what_would_come_after_it(folder: Path) -> None:
    said = folder / "said.txt"
    with said.open("wb") as file:
        process = subprocess.Popen(
            [*COMMAND, "--param=num_epochs=0"],
            cwd=folder,
            env=without_engine(folder),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 300
        while not (job := re.search(r"worker elasticdl-(\S+)-worker-0 joined", said.read_text())):
            assert process.poll() is None, said.read_text()[-5000:]
            assert time.monotonic() < deadline, said.read_text()[-5000:]
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(400) == 130
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert "the step that runs ends in order" in said.read_text()
    assert "evaluate" not in said.read_text()
    assert clean_up(job_name=job[1], run_dir=str(folder / "runs" / job[1])) == []
