"""What befalls the pod of a training step on KFP: retried, it goes on; if not, it says why it failed.

KFP's `set_retry` is of steps that failed. A pod that is lost with its node Argo makes anew without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.kit import faults
from tests.cluster.kubeflow.kubeflow_table import KubeflowTable
from tests.cluster.kubeflow.trainings import TrainingRun, Workplace

PACE = 0.3  # a record: an epoch takes longer than what befalls the step
GONE_SECONDS = 120
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
GOES_ON = r"goes on where it was left: [1-9]\d* records done"
BITE = "(head -c 20000000 /dev/zero; sleep 60) | tail -c 20000000 >/dev/null"
EAT = f"for n in $(seq 100); do {BITE} & done; wait"


def kill(run: TrainingRun) -> None:
    run.kill_step()


def starve(run: TrainingRun) -> None:
    """Small processes beside it take memory until the kernel kills the largest."""
    name = run.step_pods()[-1]["metadata"]["name"]
    run.place.pipelines.namespace.kubectl("exec", name, "-c", "main", "--", "sh", "-c", EAT, check=False)


FAULTS: dict[str, Callable[[TrainingRun], None]] = {"killed with -9": kill, "out of memory": starve}


ENDS = {"killed with -9": "Error", "out of memory": "OOMKilled"}
"""What the cluster says of the container's end."""
WORDS = {"killed with -9": r"Killed|exit status 137", "out of memory": r"Killed|exit status 137|^$"}
"""The end of the log. Where memory is short, those who would say it may be killed, too."""


@pytest.mark.parametrize("what", FAULTS)
def test_a_step_that_is_lost_is_run_again_if_it_may_be_and_otherwise_says_why_it_failed(
    place: Workplace, table: KubeflowTable, what: str
) -> None:
    given = {n: place.pipeline(f"{FAULTS[what].__name__}-{n}", retries=n, memory="1Gi") for n in (1, 0)}
    for each in given.values():
        each.pace(PACE)
    again, once = (each.start() for each in given.values())
    for run in (again, once):
        run.until_training()
    before, lost = again.uids(), again.step_uids()
    for run in (again, once):
        FAULTS[what](run)

    assert once.ends() == "FAILED", once.report()
    assert re.search(WORDS[what], once.reason()), once.report()
    assert once.ended_by() == ENDS[what], once.report()
    once.until_nothing_is_left(GONE_SECONDS)
    table.fault(f"the step: {what}", once, retry="", shown="FAILED", said=once.reason())

    again.until_again(lost, GOES_ON)
    assert before.items() <= again.uids().items(), again.report()
    given[1].pace(0)
    assert again.ends() == "SUCCEEDED", again.report()
    again.assert_each_record_is_done_once()
    again.until_nothing_is_left(GONE_SECONDS)
    twice = int(again.figures()["records_trained_again"])
    table.fault(f"the step: {what}", again, retry="1", shown="SUCCEEDED", said=again.verdict(), again=twice)


def test_a_step_whose_node_is_lost_goes_on_elsewhere(place: Workplace, table: KubeflowTable) -> None:
    """Argo makes such a pod anew, whatever the task's retries, once the cluster gives the node up."""
    cluster, namespace = place.pipelines.cluster, place.pipelines.namespace
    home, node = (each.name for each in cluster.nodes)
    with faults.drained(cluster, node):  # so KFP itself is elsewhere
        namespace.wait("--for=condition=Available", "deployment", "--all")
    kept = {"node_selector": f"kubernetes.io/hostname={home}"}  # of workers and parameter servers
    given = {retries: place.pipeline(f"lost-{retries}", retries=retries, **kept) for retries in (1, 0)}
    for each in given.values():
        each.pace(PACE)
    with faults.cordoned(cluster, home):
        runs = {retries: each.start() for retries, each in given.items()}
        for run in runs.values():
            run.until(lambda run=run: any(map(_node_of, run.step_pods())), "the step has a node")
    for run in runs.values():
        run.until_training()
    for run in runs.values():
        assert {*map(_node_of, run.step_pods())} == {node}
        assert {*map(_node_of, run.pods().values())} == {home}
    before = {retries: (run.uids(), run.step_uids()) for retries, run in runs.items()}
    with faults.lost(cluster, node):
        cluster.wait("--for=condition=Ready=Unknown", f"node/{node}")
        with faults.tainted(cluster, node, OUT_OF_SERVICE):  # as clouds do, and otherwise its administrator
            for retries, run in runs.items():
                pods, steps = before[retries]
                run.until_again(steps, GOES_ON)
                assert pods.items() <= run.uids().items(), run.report()
            for each in given.values():
                each.pace(0)
            for run in runs.values():
                assert run.ends() == "SUCCEEDED", run.report()
    for retries, run in runs.items():
        run.assert_each_record_is_done_once()
        run.until_nothing_is_left(GONE_SECONDS)
        twice = int(run.figures()["records_trained_again"])
        what = {"retry": str(retries or ""), "shown": "SUCCEEDED", "said": run.verdict(), "again": twice}
        table.fault("the step's node: lost", run, **what)


def _node_of(pod: Any) -> str:
    return str(pod["spec"].get("nodeName", ""))
