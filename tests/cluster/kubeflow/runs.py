"""What became of runs on Kubeflow Pipelines, for the message of a test that failed."""

from __future__ import annotations

from tests.cluster.kit import kfp


def pods(pipelines: kfp.Kfp, run: str = "") -> str:
    """What became of those of a run, or of all, and the last words of those that failed."""
    meant = f"--selector=pipeline/runid={run}" if run else "--selector="
    told = [pipelines.namespace.kubectl("get", "pods", meant, "-o", "wide")]
    for each in pipelines.namespace.get("pods", meant, "--field-selector=status.phase=Failed")["items"]:
        name = each["metadata"]["name"]
        told += [name, pipelines.namespace.log(name, "main", lines=40)]
    return "\n".join(told)
