"""How long the checks take, part by part, on a machine that had nothing and on one that has done it before.

A cluster of three nodes is brought up, with nothing left to build, and taken down, three times; the median
counts. All other rows are what each part took when it last happened on this machine (`tests/took.py`): nobody
builds Kubernetes again to measure that. What has a bar and never happened here is shown as not measured.
"""

from __future__ import annotations

import statistics
import time

from tests import took
from tests.benchmarks.rows import Row
from tests.cluster.kit import kit
from tests.cluster.kit.site import free_site

TURNS, NODES = 3, 3
BARS = {
    ".ci/run, on a machine that had nothing": "<= 4800 s",
    ".ci/run, again": "<= 2700 s",
    ".ci/run, on a machine that had nothing, before the tests of KFP": "<= 3600 s",
    ".ci/run, again, before the tests of KFP": "<= 2100 s",
    "`python pipelines/mnist.py` here, beside other tests": "<= 180 s",
    "programs of Kubeflow Pipelines, built once": "<= 720 s",
    "Kubeflow Pipelines in a cluster, ready": "<= 60 s",
}


def run() -> list[Row]:
    """The cluster, then what was noted."""
    kit.prepare()
    up, down = zip(*(_turn() for _ in range(TURNS)), strict=True)
    return [
        Row(f"cluster of {NODES} nodes, up", statistics.median(up), None, "s", "<= 20 s", "lower"),
        Row(f"cluster of {NODES} nodes, down", statistics.median(down), None, "s", "", "lower"),
        *noted(),
    ]


def _turn() -> tuple[float, float]:
    with free_site() as site:
        began = time.monotonic()
        try:
            kit.up(site, nodes=NODES)
            ready = time.monotonic()
        finally:
            ending = time.monotonic()
            kit.down(site)
        return ready - began, time.monotonic() - ending


def noted() -> list[Row]:
    """A row for each part that was noted, or has a bar."""
    newest = took.newest()
    return [
        Row(what, newest.get(what), None, "s", BARS.get(what, ""), "lower")
        for what in sorted({*newest, *BARS})
    ]
