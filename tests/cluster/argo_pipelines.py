"""`python pipelines/<name>.py` where there is an Argo: the command, and the workflow that it makes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.cluster.argo_steps import FOLDER, StepRun
from tests.cluster.jobs import LIMIT, RESOURCES
from tests.cluster.kit.namespace import Namespace

ROOT = Path(__file__).parents[2]
SLOWLY = f"""


def _slowly(feed, pace="{FOLDER}/pace"):
    import time

    def wait(record):
        with open(pace) as file:
            time.sleep(float(file.read().strip() or 0))
        return record

    def feed_slowly(dataset, mode, metadata):
        if mode == Mode.TRAINING:
            dataset = dataset.map(
                lambda record: tf.ensure_shape(tf.numpy_function(wait, [record], tf.string), record.shape)
            )
        return feed(dataset, mode, metadata)

    return feed_slowly


feed = _slowly(feed)
"""
"""Behind the model's module: it trains at the pace of the test."""


class PipelineRun(StepRun):
    """The command, and the workflow that it has made; `trainings` are its steps that train."""

    def __init__(
        self,
        namespace: Namespace,
        folder: Path,
        image: str,
        script: str = "mnist",
        trainings: tuple[str, ...] = ("train",),
    ) -> None:
        super().__init__(namespace, folder, image, name="")
        self.bring(ROOT / "model_zoo")
        model = self.folder / "model_zoo" / "mnist" / "mnist_functional_api.py"
        model.write_text(model.read_text() + SLOWLY)
        asked = {
            "image_pull_policy": "IfNotPresent",
            "step_resource_request": RESOURCES["master"],
            **{f"{role}_resource_request": RESOURCES[role] for role in ("worker", "ps")},
            **{f"{role}_resource_limit": LIMIT for role in ("worker", "ps")},
        }
        self.command = [
            *(sys.executable, str(ROOT / "pipelines" / f"{script}.py"), f"--namespace={namespace.name}"),
            *(f"--param={name}={value}" for name, value in self.common.items()),
            *(f"--param=folder={FOLDER}", f"--param=model_zoo={FOLDER}/model_zoo"),
            *(f"--set={step}.{name}={value}" for step in trainings for name, value in asked.items()),
        ]
        self._made = re.compile(rf"workflow ({script.replace('_', '-')}-\w{{5}}) is made")
        self.out, self.err = folder / "out.txt", folder / "err.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, *words: str) -> PipelineRun:
        """Give the command; returns when the workflow is made."""
        environment = {**os.environ, "KUBECONFIG": str(self.namespace.cluster.kubeconfig)}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*self.command, *words],
                stdout=out,
                stderr=err,
                env=environment,
                cwd=self.folder,
            )
        deadline = time.monotonic() + 300  # what it imports takes a busy machine a minute
        while not (made := self._made.search(self.said())):
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)
        self.name = made[1]
        return self

    def said(self) -> str:
        """The course of things, as the command has told it."""
        return self.err.read_text()

    def code(self, seconds: float = 900) -> int:
        """Wait for the command's end."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {seconds:g} s\n{self.said()}\n{self.report()}") from None

    def results(self) -> dict[tuple[str, str], str]:
        """What it printed of each step, by the step and the name of the thing."""
        lines = re.findall(r"^(\S+) +(\w+): (.*)$", self.out.read_text(), re.M)
        return {(step, name): value for step, name, value in lines}

    def pod_of(self, node: Any) -> str:
        """Of a workflow that brings its templates itself."""
        return f"{self.name}-{node['templateName']}-{node['id'].rpartition('-')[2]}"

    def close(self) -> None:
        """The test is over."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
