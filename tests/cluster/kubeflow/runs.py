"""Runs on Kubeflow Pipelines: started, asked after, retried; and, for the message of a test that failed, what
became of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from kfp import Client
from kfp_server_api import ApiException
from urllib3.exceptions import HTTPError

from elastic_runtime.errors import ElasticError
from tests.cluster.kit import kfp
from tests.cluster.kit.cluster import PATIENCE_SECONDS
from tests.cluster.kit.commands import until

ATTEMPTS = 3
SECONDS = 600.0
PIPELINE_SECONDS = 900.0
"""How long a whole pipeline may take, some twenty pods one after the other, beside all else."""
LOOK, LOOK_FOR_END = 0.3, 1.0
ENDED = {"SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"}
ENDING = {"CANCELING", "FAILED"}
"""What KFP shows of a run that was terminated, in turn."""
DONE = {"Succeeded", "Failed", "Error"}  # as Argo calls what KFP does
UNHEARD = "PENDING"
PERSISTED = "pipeline/persistedFinalState"
WORKFLOW, PUT_AWAY = "workflows.argoproj.io/workflow", "workflows.argoproj.io/completed"
NO_ANSWER, GONE, BUSY = 0, 404, {408, 429}
PROBLEMS = (ApiException, HTTPError, TimeoutError)
"""Of the server, of the line to it, and of a client that has asked in vain whether there is one."""
Answer = TypeVar("Answer")
Name = TypeVar("Name")


def started(pipelines: kfp.Kfp, client: Client, start: Callable[[], Any]) -> str:
    """The id of a run of which KFP has heard how it gets on."""
    return all_started(pipelines, client, {"": start})[""]


def all_started(
    pipelines: kfp.Kfp, client: Client, starts: Mapping[Name, Callable[[], Any]]
) -> dict[Name, str]:
    """The ids of runs of which KFP has heard how they get on; all are made before any is waited for.

    On a machine that stands still KFP may hear of a workflow before the run is written down, and deletes it,
    be it after it has answered: docs/known-issues.md. What it has heard of a run afterwards, it has not.
    """
    made = dict[Name, str]()
    for _ in range(ATTEMPTS):
        made |= {name: str(start().run_id) for name, start in starts.items() if name not in made}
        made = {name: run for name, run in made.items() if is_heard_of(pipelines, client, run)}
        if len(made) == len(starts):
            return {name: made[name] for name in starts}
    raise AssertionError(f"KFP has deleted the workflows of {ATTEMPTS} runs")


def is_heard_of(pipelines: kfp.Kfp, client: Client, run: str) -> bool:
    """Waits until KFP has heard how a run gets on; False: it has lost the workflow before."""
    deadline = time.monotonic() + SECONDS
    while not is_lost(pipelines, run):
        if told(client, run).state != UNHEARD:
            return True
        assert time.monotonic() < deadline, f"run {run}: KFP has heard nothing of it within {SECONDS:g} s"
        time.sleep(LOOK)
    return False


def is_lost(pipelines: kfp.Kfp, run: str) -> bool:
    """Whether a run that nobody has deleted has no workflow, so that it will not end."""
    return not workflows(pipelines, run)


def told(client: Client, run: str) -> Any:
    """What KFP says of a run."""
    return answered(partial(client.get_run, run))


def answered(ask: Callable[[], Answer]) -> Answer:
    """What KFP answers to what may be asked twice; it is, where the machine stood still meanwhile."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except PROBLEMS as problem:
            if not _stood_still(problem) or time.monotonic() > deadline:
                raise
        time.sleep(LOOK)


def done(act: Callable[[], Any], is_done: Callable[[], bool]) -> None:
    """Have KFP do what it refuses to do twice; again if the machine stood still and nothing came of it."""

    def act_if_it_is_not_done() -> None:
        try:
            act()
        except PROBLEMS:
            if not is_done():
                raise

    answered(act_if_it_is_not_done)


def _is_gone(client: Client, run: str) -> bool:
    try:
        told(client, run)
    except ApiException as problem:
        if problem.status == GONE:
            return True
        raise
    return False


def _stood_still(problem: Exception) -> bool:
    status = problem.status if isinstance(problem, ApiException) else NO_ANSWER
    return status == NO_ANSWER or status in BUSY or status >= 500


def workflows(pipelines: kfp.Kfp, run: str) -> list[Any]:
    """The one that the run is, if it is there."""
    return list(pipelines.namespace.get("workflows", "-l", f"pipeline/runid={run}")["items"])


def end(pipelines: kfp.Kfp, client: Client, run: str) -> str:
    """The state in which the run has ended, once Argo says so, too; empty as long as it has not.

    When a run is retried, KFP may hear once more how it had ended before. Only a run that was deleted has no
    workflow: that of another was lost, and it will not end.
    """
    phases = {each.get("status", {}).get("phase") for each in workflows(pipelines, run)}
    return found if phases and phases <= DONE and (found := str(told(client, run).state)) in ENDED else ""


def ends(pipelines: kfp.Kfp, client: Client, run: str, seconds: float) -> str:
    """Wait for its end; its state."""
    deadline = time.monotonic() + seconds
    while not (found := end(pipelines, client, run)):
        if time.monotonic() > deadline:
            state = told(client, run).state
            raise AssertionError(f"{run} is {state} after {seconds:g} s\n{pods(pipelines, run)}")
        time.sleep(LOOK_FOR_END)
    return found


def terminate(pipelines: kfp.Kfp, client: Client, run: str) -> None:
    """What "Terminate" does, until KFP shows that the run is ending, or has lost it before."""

    def is_ending() -> bool:
        return told(client, run).state in ENDING or is_lost(pipelines, run)

    done(partial(client.terminate_run, run), is_done=is_ending)
    what = f"KFP shows that run {run} is ending"
    until(is_ending, what=what, seconds=PATIENCE_SECONDS, every=LOOK)


def delete(client: Client, run: str) -> None:
    """What "Delete" does."""
    done(partial(client.delete_run, run), is_done=partial(_is_gone, client, run))


def retry(pipelines: kfp.Kfp, client: Client, run: str) -> None:
    """What "Retry" does, once Argo and KFP have done with the run; their client has no word for it.

    Too early, Argo forgets the run or KFP deletes its workflow: docs/known-issues.md.
    """
    away = partial(_is_put_away, pipelines, run)
    until(away, what=f"Argo and KFP have done with run {run}", seconds=SECONDS, every=LOOK)
    done(partial(client._run_api.run_service_retry_run, run), is_done=lambda: not away())


def _is_put_away(pipelines: kfp.Kfp, run: str) -> bool:
    """Whether KFP has marked the workflow, and Argo deleted the results of its tasks and marked its pods.

    It is the last that either does. Pods of steps before the last may have been marked long ago.
    """
    namespace = pipelines.namespace
    found = [each["metadata"] for each in workflows(pipelines, run)]
    if not found or not all(each["labels"].get(PERSISTED) == "true" for each in found):
        return False
    results = ("workflowtaskresults", "-l", f"{WORKFLOW} in ({','.join(each['name'] for each in found)})")
    if namespace.get(*results)["items"]:
        return False
    made = namespace.get("pods", "-l", f"pipeline/runid={run}")["items"]
    return all(each["metadata"]["labels"].get(PUT_AWAY) == "true" for each in made)


def pods(pipelines: kfp.Kfp, run: str = "") -> str:
    """What became of those of a run, or of all, and the last words of those that failed."""
    meant = f"--selector=pipeline/runid={run}" if run else "--selector="
    found = pipelines.namespace.get("pods", meant)["items"]
    lines = [
        " ".join(
            [each["metadata"]["name"], each["status"]["phase"], each["spec"].get("nodeName", "on no node")]
        )
        for each in found
    ]
    failed = [each["metadata"]["name"] for each in found if each["status"]["phase"] == "Failed"]
    return "\n".join([*lines, *(f"{name}\n{_last_words(pipelines, name)}" for name in failed)])


def _last_words(pipelines: kfp.Kfp, pod: str) -> str:
    try:
        return pipelines.namespace.log(pod, "main", lines=40)
    except ElasticError as problem:  # its node may be lost
        return f"({problem})"
