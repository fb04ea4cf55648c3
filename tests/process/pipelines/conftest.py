"""A training step in a pipeline of its own, followed and damaged like any job; nothing outlives its test."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.job.harness import ORPHAN_SECONDS, ZOO, Run, write_data

MakeStep = Callable[..., "StepRun"]


class StepRun(Run):
    """One pipeline whose training step is the master of a job."""

    def __init__(
        self, folder: Path, data: Path, *, model: str = "tiny", retries: int = 0, **options: Any
    ) -> None:
        super().__init__(folder, data, model=model)
        given = {
            "job_name": self.name,
            "model_zoo": str(ZOO),
            "model_def": f"{model}.custom_model",
            "training_data": str(data),
            "envs": f"TINY_PACE={folder / 'pace'}",
            "minibatch_size": 16,
            "num_minibatches_per_task": 4,
            "orphan_timeout": ORPHAN_SECONDS,
            **options,
        }
        script = str(Path(__file__).with_name("training.py"))
        self.command = [sys.executable, script, json.dumps({"retries": retries, "train": given})]

    def step(self) -> int:
        """The process of the step."""
        pid: int = self.until(self._run.master, "the step is the job's master")
        return pid

    def kill_step(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the step's process, and wait for the end of it."""
        pidfd = os.pidfd_open(self.step())
        signal.pidfd_send_signal(pidfd, number)
        select.select([pidfd], [], [])
        os.close(pidfd)

    def artifact(self, name: str) -> Path:
        """An output of the latest attempt's step."""
        return max((self.cwd / "outputs").glob(f"training-*/train/{name}"))


def without_engine(folder: Path) -> dict[str, str]:
    """An environment in which no pipeline engine is configured."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KF_PIPELINES_")}
    return {**kept, "KUBECONFIG": str(folder / "none")}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1200 records in three files."""
    return write_data(tmp_path_factory.mktemp("data") / "train")


@pytest.fixture
def make_step(tmp_path: Path, data: Path) -> Iterator[MakeStep]:
    """Makes the test's pipeline; what is left of it at the end is killed."""
    made: list[StepRun] = []

    def make(data: Path = data, *, model: str = "tiny", retries: int = 0, **options: Any) -> StepRun:
        made.append(StepRun(tmp_path, data, model=model, retries=retries, **options))
        return made[-1]

    yield make
    for run in made:
        run.close()
