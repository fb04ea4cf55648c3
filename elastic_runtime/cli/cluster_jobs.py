"""`elasticdl job` in a cluster: the same commands, run in the pod of the job's master, where its files are.

Logs come from the API server, and so does what is known of a job whose master does not run.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import time
from typing import Any

import click

from elastic_runtime.cli import tables
from elastic_runtime.cli.cluster_state import end_of, is_over, kept_state
from elastic_runtime.cli.state import State
from elastic_runtime.errors import ElasticError, InputError, nearest
from elastic_runtime.platform.kubernetes import labels, state
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.container import own_container
from elastic_runtime.platform.kubernetes.errors import CutOff, NotThere
from elastic_runtime.platform.kubernetes.log import WholeLog
from elastic_runtime.platform.kubernetes.objects import SPEC_KEY
from elastic_runtime.platform.kubernetes.remote import run_in_pod
from elastic_runtime.platform.kubernetes.submission import await_end, remove
from elastic_runtime.platform.pods import Phase, Role, pod_name
from elastic_runtime.spec.job import JobSpec

_KILLED = 137
"""Exit code of a command whose pod has ended, if one is told at all."""


def state_without_master(job: str, namespace: str) -> State | None:
    """What is known of a job by others than its master; None if that runs, and is to be asked."""
    api = Api.connect(namespace)
    master, anchor = _found(api, job)
    return None if anchor and _answers(master, job) else kept_state(api, job, master, anchor)


def forward(job: str, namespace: str, command: list[str]) -> int:
    """Run a command about this job in its master's pod; the command's exit code."""
    api = Api.connect(namespace)
    master, anchor = _found(api, job)
    if not _answers(master, job):
        raise _no_answer(api, job, master)
    if anchor is None:
        raise ElasticError("the job is over", where=f"{namespace}/{job}")
    verb, *rest = command
    run_dir = JobSpec.from_json(anchor.data[SPEC_KEY]).run_dir
    remote = ["python", "-m", "elastic_runtime", "job", verb, job, f"--run_dir={run_dir}", *rest]
    own, name = own_container(master).name, master.metadata.name
    return run_in_pod(namespace, name, remote, container=own, out=_write, err=_write_error)


def stop(job: str, namespace: str, *, timeout: float) -> None:
    """Have the master drain the job, save and end, and wait until it has."""
    api = Api.connect(namespace)
    master, _ = _found(api, job)
    if master is not None and is_over(master):
        click.echo(f"job {job} is not running ({end_of(master)}); {_clean(api, job)} what is left of it")
        return
    code = 0
    with contextlib.suppress(CutOff):  # it ends with the pod it runs in
        code = forward(job, namespace, ["stop", f"--timeout={timeout}"])
    if code not in (0, _KILLED):
        raise ElasticError(
            f"`elasticdl job stop` in the master's pod failed with exit code {code}",
            where=f"{namespace}/{job}",
            remedy="what it says is above; "
            f"`elasticdl job clean {job} -n {namespace} --force` ends the job at once",
        )
    if not await_end(api, job, seconds=timeout):
        raise ElasticError(
            f"the job has not ended within {timeout:g} s",
            where=f"{namespace}/{job}",
            remedy=f"it still drains; `elasticdl job clean {job} -n {namespace} --force` ends it at once",
        )
    master = api.get_pod(pod_name(job, Role.MASTER))
    click.echo(f"job {job}: {'gone' if master is None else _words(master)}")


def list_jobs(namespace: str, *, as_json: bool) -> None:
    """Every job that has left something in the namespace."""
    api = Api.connect(namespace)
    masters = {pod.metadata.labels[labels.JOB]: pod for pod in api.list_pods(labels.MASTERS).items}
    rows = [(job, _words(masters[job]) if job in masters else "gone") for job in sorted(_jobs(api))]
    if as_json:
        tables.show_json([{"job": job, "master": master} for job, master in rows])
    else:
        tables.show_table(("job", "master"), rows)


def logs(job: str, namespace: str, pod: str, *, follow: bool) -> None:
    """Print a pod's log, by its name or its end; with `follow`, or if it has ended, to its last line."""
    api = Api.connect(namespace)
    pods = {found.metadata.name: found for found in api.list_pods(labels.pods_of(job)).items}
    name = next((name for name in (pod, f"elasticdl-{job}-{pod}") if name in pods), None)
    if name is None:
        remedy = nearest(pod, pods) if pods else f"`elasticdl job list -n {namespace}` shows all jobs"
        raise InputError(f"job {job} has no pod {pod!r}", where=namespace, remedy=remedy)
    if follow:
        api = api.patient(math.inf)  # the pod outlives an API server, so do we
    ended = functools.partial(_ended, api, name, pods[name].metadata.uid)
    own = own_container(pods[name]).name
    whole = follow or ended(0.0)
    for line in WholeLog(api, name, own, ended) if whole else api.pod_log(name, container=own):
        click.echo(line)


def clean(job: str, namespace: str, *, force: bool) -> None:
    """Remove everything that carries the job's label, and wait until it is gone."""
    api = Api.connect(namespace)
    living = [state.phase(pod) is Phase.RUNNING for pod in api.list_pods(labels.master_of(job)).items]
    if any(living) and not force:
        raise ElasticError(
            "the job's master is running",
            where=f"{namespace}/{job}",
            remedy=f"`elasticdl job stop {job} -n {namespace}` first, or --force",
        )
    if not remove(api, job):
        raise _unknown(api, job)
    click.echo(f"nothing is left of job {job} in namespace {namespace}")


def _ended(api: Api, name: str, uid: str, seconds: float) -> bool:
    """Whether the pod has ended, so many seconds from now; another of its name is not meant."""
    time.sleep(seconds)
    pod = api.get_pod(name)
    if pod is None or pod.metadata.uid != uid:
        raise NotThere(f"pod {name} is gone", where=api.namespace)
    return state.phase(pod) is Phase.ENDED


def _found(api: Api, job: str) -> tuple[Any, Any]:
    """The job's master, of several one that lives or the newest, and its anchor; None for what is gone."""
    masters = sorted(api.list_pods(labels.master_of(job)).items, key=_age)
    anchor = api.get_config_map(labels.anchor_name(job))
    if not masters and anchor is None:
        raise _unknown(api, job)
    return masters[-1] if masters else None, anchor


def _age(pod: Any) -> tuple[bool, Any]:
    return state.phase(pod) is not Phase.ENDED, pod.metadata.creation_timestamp


def _unknown(api: Api, job: str) -> InputError:
    jobs = _jobs(api)
    remedy = nearest(job, jobs) if jobs else f"there are no jobs in namespace {api.namespace}"
    return InputError(f"unknown job {job!r}", where=api.namespace, remedy=remedy)


def _jobs(api: Api) -> set[str]:
    """The names of all jobs that have left something."""
    listings = (api.list_pods(labels.MASTERS), api.list_config_maps(labels.ANY_JOB))
    return {found.metadata.labels[labels.JOB] for listing in listings for found in listing.items}


def _answers(master: Any, job: str) -> bool:
    """Whether the master runs in a pod of its own: in that of a pipeline's step nobody has its token."""
    own = master is not None and master.metadata.name == pod_name(job, Role.MASTER)
    return own and state.phase(master) is Phase.RUNNING


def _no_answer(api: Api, job: str, master: Any) -> ElasticError:
    where = f"{api.namespace}/{job}"
    if master is None or state.phase(master) is Phase.ENDED:
        lost = "" if master is None else f": it is lost, {end_of(master)}"
        remedy = f"the command that began it goes on with it; {_clean(api, job)} it and its pods"
        return ElasticError(f"the job has no master{lost}", where=where, remedy=remedy)
    if state.phase(master) is Phase.PENDING:
        return ElasticError(
            "the job's master has not begun", where=where, remedy=f"{_clean(api, job)} the job"
        )
    return ElasticError(
        f"the job's master is a step of a pipeline, in the pod {master.metadata.name}",
        where=where,
        remedy="look at the run of that pipeline, and terminate it there",
    )


def _clean(api: Api, job: str) -> str:
    return f"`elasticdl job clean {job} -n {api.namespace}` removes"


def _words(pod: Any) -> str:
    phase = state.phase(pod)
    return end_of(pod) if phase is Phase.ENDED else phase.value


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
