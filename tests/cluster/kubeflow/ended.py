"""A run on Kubeflow Pipelines, mostly one that has ended: the state that KFP shows, its pods and what they
said, what it made.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from kfp import Client

from tests.cluster.kit import kfp
from tests.cluster.kubeflow import graph
from tests.cluster.kubeflow.runs import answered, ends, pods, told

# What KFP's launcher, in whose container a step runs, and Argo's say themselves.
_NOT_THE_STEP = re.compile(r'[IWEF]\d{4} [\d:.]+ +\d+ \S+\.go:\d+\] |time="?\d{4}-|Error: exit status \d+')
NODE = "workflows.argoproj.io/node-name"


@contextmanager
def connected(pipelines: kfp.Kfp) -> Iterator[Client]:
    """KFP's own client, as a user has it who has a kubeconfig."""
    known = str(pipelines.cluster.kubeconfig)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        patch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", known)
        yield answered(Client)


@dataclass(frozen=True, slots=True)
class Ended:
    """One run, as it was when KFP told of it; tasks are called by their names in the pipeline."""

    pipelines: kfp.Kfp
    number: str
    told: Any

    @classmethod
    def of(cls, pipelines: kfp.Kfp, client: Client, number: str, seconds: float) -> Ended:
        """Waits for its end."""
        ends(pipelines, client, number, seconds)
        return cls(pipelines, number, told(client, number))

    @property
    def state(self) -> str:
        """As KFP shows it."""
        return str(self.told.state)

    def report(self) -> str:
        """For the message of a test that failed."""
        shown = [f"{task.display_name}: {task.state}" for task in self._tasks()]
        return "\n".join([self.state, *shown, pods(self.pipelines, self.number)])

    def states(self, task: str) -> list[str]:
        """What KFP shows of a task, for each time that it is in the run."""
        return [str(each.state) for each in self._tasks() if each.display_name == task]

    def is_cached(self, task: str) -> bool:
        """Whether KFP's page says of a task, which is in the run once, that it was taken from the cache.

        The server tells that of no task.
        """
        return self.graph(task) == [graph.CACHED]

    def graph(self, task: str) -> list[str]:
        """What the graph on KFP's page shows of a task, for each time that it is in the run."""
        return graph.states(self.pipelines, self.number, task)

    def pods(self, task: str) -> list[Any]:
        """Those in which the task was run, over all its attempts and iterations; none if it was not."""
        ran = re.compile(rf"\.{re.escape(task)}\.executor(\(\d+\))?")
        made = self.pipelines.namespace.get("pods", f"--selector=pipeline/runid={self.number}")["items"]
        found = [pod for pod in made if ran.search(pod["metadata"]["annotations"].get(NODE, ""))]
        return sorted(found, key=lambda pod: pod["metadata"]["annotations"][NODE])

    def said(self, pod: Any) -> list[str]:
        """The step's own lines; those of KFP and Argo are left out."""
        log = self.pipelines.namespace.log(pod["metadata"]["name"], "main")
        return [line for line in log.splitlines() if line.strip() and not _NOT_THE_STEP.match(line)]

    def artifacts(self, step: str, kind: str = "") -> list[kfp.Artifact]:
        """What a step of this run has made, of this kind or of any."""
        made = [each for each in self.pipelines.artifacts() if f"/{self.number}/{step}/" in each.uri]
        return [each for each in made if kind in {"", each.kind}]

    def _tasks(self) -> list[Any]:
        """Those that KFP has heard of."""
        return (self.told.run_details and self.told.run_details.task_details) or []
