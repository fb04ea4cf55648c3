"""`elasticdl job` in a cluster: the same commands, run in the pod of the job's master, where its files are.

Logs come from the API server, and so does what is left of a job whose master has ended.
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


def forward(job: str, namespace: str, command: list[str]) -> int:
    """Run a command about this job in its master's pod; the command's exit code."""
    api = Api.connect(namespace)
    pod = _master(api, job)
    if state.phase(pod) is not Phase.RUNNING:
        raise ElasticError(
            f"the job's master does not run, it is {_words(pod)}",
            where=f"{namespace}/{job}",
            remedy=f"`elasticdl job logs {job} -n {namespace}` shows what it wrote; the command that "
            "started the job goes on with it",
        )
    verb, *rest = command
    run_dir = _run_dir(api, job)
    remote = ["python", "-m", "elastic_runtime", "job", verb, job, f"--run_dir={run_dir}", *rest]
    own = own_container(pod).name
    return run_in_pod(namespace, pod.metadata.name, remote, container=own, out=_write, err=_write_error)


def stop(job: str, namespace: str, *, timeout: float) -> None:
    """Have the master drain the job, save and end, and wait until it has."""
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
    api = Api.connect(namespace)
    if not await_end(api, job, seconds=timeout):
        raise ElasticError(
            f"the job has not ended within {timeout:g} s",
            where=f"{namespace}/{job}",
            remedy=f"it still drains; `elasticdl job clean {job} -n {namespace} --force` ends it at once",
        )
    click.echo(f"job {job}: {_words(_master(api, job))}")


def list_jobs(namespace: str, *, as_json: bool) -> None:
    """Every job that has left something in the namespace."""
    api = Api.connect(namespace)
    masters = {pod.metadata.labels[labels.JOB]: pod for pod in api.list_pods(labels.MASTERS).items}
    kept = {found.metadata.labels[labels.JOB] for found in api.list_config_maps(labels.ANY_JOB).items}
    rows = [(job, _words(masters[job]) if job in masters else "gone") for job in sorted(kept | {*masters})]
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
    master = api.get_pod(pod_name(job, Role.MASTER))
    if master is not None and state.phase(master) is Phase.RUNNING and not force:
        raise ElasticError(
            "the job's master is running",
            where=f"{namespace}/{job}",
            remedy=f"`elasticdl job stop {job} -n {namespace}` first, or --force",
        )
    remove(api, job)
    click.echo(f"nothing is left of job {job} in namespace {namespace}")


def _ended(api: Api, name: str, uid: str, seconds: float) -> bool:
    """Whether the pod has ended, so many seconds from now; another of its name is not meant."""
    time.sleep(seconds)
    pod = api.get_pod(name)
    if pod is None or pod.metadata.uid != uid:
        raise NotThere(f"pod {name} is gone", where=api.namespace)
    return state.phase(pod) is Phase.ENDED


def _master(api: Api, job: str) -> Any:
    pod = api.get_pod(pod_name(job, Role.MASTER))
    if pod is None:
        jobs = {found.metadata.labels[labels.JOB] for found in api.list_pods(labels.MASTERS).items}
        remedy = nearest(job, jobs) if jobs else f"there are no jobs in namespace {api.namespace}"
        raise InputError(f"unknown job {job!r}", where=api.namespace, remedy=remedy)
    return pod


def _run_dir(api: Api, job: str) -> str:
    anchor = api.get_config_map(labels.anchor_name(job))
    if anchor is None:
        raise ElasticError("the job is over", where=f"{api.namespace}/{job}")
    return JobSpec.from_json(anchor.data[SPEC_KEY]).run_dir


def _words(pod: Any) -> str:
    phase = state.phase(pod)
    if phase is not Phase.ENDED:
        return phase.value
    verdict = state.verdict(pod)
    return {0: "succeeded", 1: "failed", 130: "stopped"}.get(
        -1 if verdict.exit_code is None else verdict.exit_code, verdict.detail
    )


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
