"""Two jobs that share a cluster by priority, as in docs/tutorials/cloud.md, against one after the other.

On a real Kubernetes of three nodes, with every number of the tutorial divided by ten: nodes have 0.39
processors to give, workers may use 0.3. One job begins with two workers, for which there is just room; once
they train, the urgent one comes, wants one worker as large, and gets it by preemption. Together is from the
first submission to the later end of both; one after the other is the sum of both, each from submission to
end. The old system took 809 s against 968 s, 0.84.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.rows import Row
from tests.cluster.kit import builder, kit
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.objects import pod
from tests.cluster.kit.site import free_site
from tests.cluster.tutorial import Page, Run, Terminal, claim, in_the_cloud

MILLICORES = 390  # of a node: no worker fits beside a master
SUBMITTED, JOINED = "was successfully submitted", r"worker elasticdl-\S+ joined"
SECONDS = 1200.0
TENTH = {
    r"request=\"cpu=([\d.]+)": lambda cpu: f'request="cpu={float(cpu[1]) / 10:g}',
    r"worker_resource_limit=\"cpu=3": 'worker_resource_limit="cpu=0.3',
    r"(--job_name=low-prio-job [^$]*\$[^$]*\$[^$]*--num_epochs)=1": r"\1=6",
    r"(--job_name=high-prio-job [^$]*\$[^$]*\$[^$]*--num_epochs)=1": r"\1=4",
}


def run() -> list[Row]:
    """One row."""
    image = builder.build("tensorflow")
    with free_site() as site, TemporaryDirectory() as folder:
        try:
            cluster = kit.up(site, nodes=3, millicores=MILLICORES)
            pull_everywhere(cluster, image)
            with _terminal(cluster, Path(folder) / "together") as typing:
                together = _together(typing)
            with _terminal(cluster, Path(folder) / "apart") as typing:
                apart = _alone(typing, "low-prio-job", workers=2) + _alone(typing, "high-prio-job", workers=1)
        finally:
            kit.down(site)
    name = "two jobs that share a cluster by priority, against one after the other"
    return [Row(name, together, apart, "s", "<= 0.8x", "lower")]


def _together(typing: Terminal) -> float:
    low = typing.begin("low-prio-job")
    begin = _submitted(low)
    low.until_said(JOINED, times=2)
    high = typing.begin("high-prio-job")
    high.ends(SECONDS)
    low.ends(SECONDS)
    assert "preempted by a more urgent pod" in low.text()
    return time.monotonic() - begin


def _alone(typing: Terminal, job: str, *, workers: int) -> float:
    job_run = typing.begin(job)
    begin = _submitted(job_run)
    job_run.until_said(JOINED, times=workers)
    job_run.ends(SECONDS)
    return time.monotonic() - begin


def _submitted(job: Run) -> float:
    job.until_said(SUBMITTED)
    return time.monotonic()


@contextmanager
def _terminal(cluster: Cluster, folder: Path) -> Iterator[Terminal]:
    """Where both jobs may be submitted."""
    namespace = Namespace.create(cluster, folder.name)
    with claim(namespace, folder / "volume"):
        typing = Terminal(
            Page("cloud.md"), namespace, folder / "elasticdl", {**in_the_cloud(cluster), **TENTH}
        )
        try:
            typing.type("cluster", "rights", "image", "data", "priorities")
            yield typing
        finally:
            typing.close()
    namespace.delete()


def pull_everywhere(cluster: Cluster, image: str) -> None:
    """Before anything is timed, every node has the image that jobs stand on."""
    name = f"{cluster.site.registry}/elasticdl:pulled"
    builder.buildah("push", "--quiet", "--disable-compression", image, name)
    pods = [pod(f"pull-{node.name}", name, "true", node=node.name) for node in cluster.nodes]
    cluster.apply(*pods)
    for each in pods:
        cluster.wait(
            "--for=jsonpath={.status.phase}=Succeeded", f"pod/{each['metadata']['name']}", seconds=400
        )


if __name__ == "__main__":
    for row in run():
        print(row, row.ratio)
