"""A training step in a pipeline of its own, followed and damaged like any job."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.process.job.harness import ORPHAN_SECONDS, ZOO, Run

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
