"""Two trainings that give their jobs one name: the second is refused, and lets the first's alone.

A step that is run again finds its job by the name, and so does one that goes on with what another run has
left. But as long as the step of another run is the job's master, the job is neither taken nor cleaned up; nor
is it taken from another step of the same run. What tells that from an earlier attempt of the same step is the
name of its node in the workflow: Argo numbers attempts behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes import labels, state
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.objects import workflow_of
from elastic_runtime.platform.pods import ExitCause, Phase, Role

NODE = "workflows.argoproj.io/node-name"
_ATTEMPT = re.compile(r"\(\d+\)")
"""An item of a loop, which is another step, looks like `(0:item)`."""


def become_master(api: Api, job: str, name: str) -> Any:
    """Give the pod of this name the labels of the job's master; returns it.

    Of two that do so in the same moment one is refused, or both.
    """
    marks = labels.labels(job, Role.MASTER)
    _refuse_a_second(api, job, name)
    own = api.patch_pod(name, {"metadata": {"labels": marks}})
    try:
        _refuse_a_second(api, job, name)
    except InputError:
        api.patch_pod(name, {"metadata": {"labels": dict.fromkeys(marks)}})
        raise
    return own


def other_run(api: Api, job: str, name: str) -> str:
    """The run, other than that of the pod of this name, whose step is the job's master; empty if none is."""
    living = living_masters(api, job, name)
    mine = _run(api.get_pod(name)) if living else ""
    return next((_run(pod) or pod.metadata.name for pod in living if _run(pod) != mine), "")


def ran_out_of_memory(pods: Iterable[Any]) -> list[str]:
    """Of these pods, those that were killed so, with their limits: their logs may end without a word."""
    ended = {pod.metadata.name: state.verdict(pod) for pod in pods if state.phase(pod) is Phase.ENDED}
    return [
        f"{name} was {verdict.detail}"
        for name, verdict in ended.items()
        if verdict.cause is ExitCause.OUT_OF_MEMORY
    ]


def _refuse_a_second(api: Api, job: str, name: str) -> None:
    if run := other_run(api, job, name):
        raise InputError(
            f"a job of this name is there already, in {run}",
            where=f"job_name={job}",
            remedy="leave it out, or make the run's own id part of it",
        )
    living = living_masters(api, job, name)
    mine = _step(api.get_pod(name)) if living else ""
    if step := next((_step(pod) for pod in living if _step(pod) != mine), ""):
        raise InputError(
            f"a job of this name is there already, that of the step {step}",
            where=f"job_name={job}",
            remedy="give each training of a run a job_name of its own",
        )


def living_masters(api: Api, job: str, name: str) -> list[Any]:
    """The pods, other than that of this name, that are the job's master."""
    masters = api.list_pods(labels.master_of(job)).items
    return [pod for pod in masters if pod.metadata.name != name and _lives(pod)]


def _lives(pod: Any) -> bool:
    return state.phase(pod) is not Phase.ENDED and not pod.metadata.deletion_timestamp


def _run(pod: Any) -> str:
    """The name of its workflow, which one that is made anew keeps."""
    workflow = workflow_of(pod)
    return workflow.name if workflow else ""


def _step(pod: Any) -> str:
    """The name of its node in the workflow, the same for each attempt."""
    return _ATTEMPT.sub("", (pod.metadata.annotations or {}).get(NODE, ""))
