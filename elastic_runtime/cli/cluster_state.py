"""What a cluster knows of a job whose master cannot be asked: its journal's figures, and what its pods are.

The journal is in the job's anchor, which anybody may look at who may see the job. One that is on a volume, or
has gone with the job's success, tells nothing: then there are only the pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from elastic_runtime.cli.state import State
from elastic_runtime.master.job import Job
from elastic_runtime.master.journal import check, replay
from elastic_runtime.master.status import describe
from elastic_runtime.observe.events import Evaluation
from elastic_runtime.observe.history import History
from elastic_runtime.platform.kubernetes import labels, state
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.config_map import rows_of
from elastic_runtime.platform.kubernetes.journal_place import noted_place
from elastic_runtime.platform.kubernetes.making import what_its_node_does
from elastic_runtime.platform.kubernetes.objects import SPEC_KEY, pod_of
from elastic_runtime.platform.kubernetes.submission import VERDICTS
from elastic_runtime.platform.pods import Phase, Role
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.job import JobSpec

_ENDS = {0: "succeeded", 1: "failed", 130: "stopped"}
_ORDER = {Role.MASTER: 0, Role.PS: 1, Role.WORKER: 2}


def end_of(master: Any) -> str:
    """How the job ended, by its master's pod."""
    verdict = state.verdict(master)
    return _ENDS.get(-1 if verdict.exit_code is None else verdict.exit_code, verdict.detail)


def is_over(master: Any) -> bool:
    """Whether the master has ended, and the job with it: else another master may go on with it."""
    return state.phase(master) is Phase.ENDED and state.verdict(master).exit_code in VERDICTS


def kept_state(api: Api, job: str, master: Any, anchor: Any) -> State:
    """The job as far as it is known; `master` and `anchor` are None if they are not there."""
    reply = master_pb2.StatusReply(job=job)
    place = noted_place(anchor) if anchor is not None else ""
    has_figures = anchor is not None and not place
    if has_figures:
        reply = _by_the_journal(anchor)
    reply.status, told = _status(api, master)
    reply.message = told or reply.message
    if not has_figures:
        where = f"on a volume, {place}, where its masters find it" if place else "gone, as after a success"
        reply.message = "; ".join(filter(None, [told, f"its journal is {where}"]))
    reply.pods.extend(_pods(api, job))
    return State(reply, is_live=False, has_figures=has_figures, namespace=api.namespace)


def _by_the_journal(anchor: Any) -> master_pb2.StatusReply:
    rows = rows_of(anchor)
    check(rows, f"ConfigMap {anchor.metadata.name}")
    job = Job(JobSpec.from_json(anchor.data[SPEC_KEY]), lambda _: None)
    snapshot, records = replay(rows)
    if snapshot is not None:
        job.restore(snapshot)
    for record in records:
        job.replay(record)
    results = job.evaluation.results if job.evaluation else {}
    history = History(
        error=job.outcome.error if job.outcome else "",
        evaluations=[
            Evaluation(time=0.0, version=version, metrics=dict(metrics))
            for version, metrics in results.items()
        ],
    )
    return describe(job, history, pids={}, status="", pace=0.0, loss=None)


def _status(api: Api, master: Any) -> tuple[str, str]:
    """The job's status, and what is to be said of it."""
    if master is None:
        return "running", ""  # as it was last heard of
    match state.phase(master):
        case Phase.RUNNING:
            return f"running in the pod {master.metadata.name}", ""
        case Phase.PENDING:
            waits = (
                what_its_node_does(api, master) if state.is_being_made(master) else state.waits_for(master)
            )
            return "pending", f"its master waits: {waits}" if waits else "its master has not begun"
        case _ if is_over(master):
            return end_of(master), ""
    return "running", f"its master is lost: {end_of(master)}"


def _pods(api: Api, job: str) -> Iterator[master_pb2.PodStatus]:
    found = [(pod_of(each), state.phase(each)) for each in api.list_pods(labels.pods_of(job)).items]
    for pod, phase in sorted(found, key=lambda each: (_ORDER[each[0].role], each[0].index, each[0].name)):
        yield master_pb2.PodStatus(
            name=pod.name,
            role=pod.role,
            index=pod.index,
            state=phase,
            started=pod.started,
            relaunched_because=pod.relaunched_because,
        )
