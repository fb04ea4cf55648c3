"""What befalls the pod of a training step on KFP: retried, it goes on; if not, it says why it failed.

KFP's `set_retry` is of steps that failed. A pod that is lost with its node Argo makes anew without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.cluster.kit import faults
from tests.cluster.kit.commands import until
from tests.cluster.kubeflow.kubeflow_table import KubeflowTable
from tests.cluster.kubeflow.trainings import (
    GONE_SECONDS,
    LAST_WORDS,
    PACE,
    SECONDS,
    TrainingRun,
    Workplace,
)

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
GOES_ON = r"goes on where it was left: [1-9]\d* records done"
EAT = """
hold() {
  exec 9>&-
  (head -c 20000000 /dev/zero; touch $1; sleep 86400) | tail -c 20000000
}
step=$(for each in /proc/[0-9]*; do
  case $(readlink $each/exe) in *python*) echo ${each#/proc/}; esac
done | sort -n | head -1)
[ "$step" ] || exit
exec 9>/tmp/eater
flock -n 9 || { for each in $(seq 100); do kill -0 $step || exit; sleep 0.1; done; exit; }
counted="/sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control"
bite=/tmp/bite.$$.
while [ ${#bite} -lt 200 ] && kill -0 $step && ! grep -qs "^oom_kill [1-9]" $counted; do
  bite=${bite}e
  hold $bite >/dev/null 2>&1 &
  until [ -e $bite ] || ! kill -0 $!; do sleep 0.1; done
done
"""


def kill(run: TrainingRun) -> None:
    run.kill_step()


def starve(run: TrainingRun) -> None:
    """Small processes beside it take memory, bite by bite, until the kernel has killed the largest.

    And no longer: it would take the launcher next, which is to say what has happened. They hold what they
    have until the container ends, and they with it: otherwise old ones could go as fast as new ones come.
    One at a time makes them; where it ends before its work is done, another takes over.
    """
    step = run.step_pods()[-1]["metadata"]
    words = ("exec", step["name"], "-c", "main", "--", "sh", "-c", EAT)

    def is_starved() -> bool:
        run.place.pipelines.namespace.kubectl(*words, check=False)  # ends with the container, or never began
        return run.is_over(step["uid"])

    until(is_starved, what=f"the step's container in {step['name']} ends for want of memory", seconds=SECONDS)


@dataclass(frozen=True)
class Fault:
    """What befalls a step, and what the cluster says of its container then."""

    what: str
    cause: Callable[[TrainingRun], None]
    ends: str


KILLED, STARVED = Fault("killed with -9", kill, "Error"), Fault("out of memory", starve, "OOMKilled")
# That of a step which is killed and not run again is shown, and noted, where users do without a clean-up.
TRIED = ((KILLED, 1), (STARVED, 1), (STARVED, 0))


def test_a_step_that_is_lost_is_run_again_if_it_may_be_and_otherwise_says_why_it_failed(
    place: Workplace, table: KubeflowTable
) -> None:
    """The runs at once: each fault with a retry, and one without."""
    given = {
        (fault, n): place.pipeline(f"{fault.cause.__name__}-{n}", retries=n, memory="1Gi")
        for fault, n in TRIED
    }
    for each in given.values():
        each.pace(PACE)
    runs = place.start(given)
    for run in runs.values():
        run.until_training()
    before = {which: (run.uids(), run.step_uids()) for which, run in runs.items()}
    for (fault, _), run in runs.items():
        run.assert_it_goes_on()
        fault.cause(run)

    once = runs[STARVED, 0]
    assert once.ends() == "FAILED", once.report()
    assert once.ended_by() == STARVED.ends, once.report()
    if once.reason():  # under version 2 of cgroups the shell and the launcher are killed with the step
        assert re.search(LAST_WORDS, once.reason()), once.report()
    once.until_nothing_is_left(GONE_SECONDS)
    table.fault(f"the step: {STARVED.what}", once, retry="", shown="FAILED", said=once.reason())
    for fault in (KILLED, STARVED):
        again, (pods, steps) = runs[fault, 1], before[fault, 1]
        again.until_again(steps, GOES_ON)
        assert pods.items() <= again.uids().items(), again.report()
        given[fault, 1].pace(0)
    for fault in (KILLED, STARVED):
        again = runs[fault, 1]
        assert again.ends() == "SUCCEEDED", again.report()
        again.assert_each_record_is_done_once()
        again.until_nothing_is_left(GONE_SECONDS)
        twice = int(again.figures()["records_trained_again"])
        said = {"shown": "SUCCEEDED", "said": again.verdict(), "again": twice}
        table.fault(f"the step: {fault.what}", again, retry="1", **said)


def test_a_step_whose_node_is_lost_goes_on_elsewhere(place: Workplace, table: KubeflowTable) -> None:
    """Argo makes such a pod anew, whatever the task's retries, once the cluster gives the node up."""
    cluster, namespace = place.pipelines.cluster, place.pipelines.namespace
    *others, node = (each.name for each in cluster.nodes)
    home = others[0]
    of_kfp = namespace.get("pods", "--selector=app,!pipeline/runid,!elasticdl_job_name")["items"]
    assert node not in {*map(_node_of, of_kfp)}
    kept = {"node_selector": f"kubernetes.io/hostname={home}"}  # of workers and parameter servers
    tried = (1, 0) if table.is_for_the_page else (0,)  # either is made anew
    given = {retries: place.pipeline(f"lost-{retries}", retries=retries, **kept) for retries in tried}
    for each in given.values():
        each.pace(PACE)
    with ExitStack() as stack:
        for other in others:
            stack.enter_context(faults.cordoned(cluster, other))
        runs = place.start(given)
        for run in runs.values():
            run.until(lambda run=run: any(map(_node_of, run.step_pods())), "the step has a node")
    for run in runs.values():
        run.until_training()
    for run in runs.values():
        assert {*map(_node_of, run.step_pods())} == {node}
        assert {*map(_node_of, run.pods().values())} == {home}
    before = {retries: (run.uids(), run.step_uids()) for retries, run in runs.items()}
    for run in runs.values():
        run.assert_it_goes_on()
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
