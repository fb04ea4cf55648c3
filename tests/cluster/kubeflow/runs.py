"""Runs on Kubeflow Pipelines: started, and what became of them, for the message of a test that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.cluster.kit import kfp

ATTEMPTS = 3


def started(pipelines: kfp.Kfp, start: Callable[[], Any]) -> str:
    """The id of a run whose workflow is there.

    On a machine that stands still KFP may hear of a workflow before the run is written down: it deletes it.
    """
    for _ in range(ATTEMPTS):
        run = str(start().run_id)
        if pipelines.namespace.get("workflows", "-l", f"pipeline/runid={run}")["items"]:
            return run
    raise AssertionError(f"KFP has deleted the workflows of {ATTEMPTS} runs")


def pods(pipelines: kfp.Kfp, run: str = "") -> str:
    """What became of those of a run, or of all, and the last words of those that failed."""
    meant = f"--selector=pipeline/runid={run}" if run else "--selector="
    told = [pipelines.namespace.kubectl("get", "pods", meant, "-o", "wide")]
    for each in pipelines.namespace.get("pods", meant, "--field-selector=status.phase=Failed")["items"]:
        name = each["metadata"]["name"]
        told += [name, pipelines.namespace.log(name, "main", lines=40)]
    return "\n".join(told)
