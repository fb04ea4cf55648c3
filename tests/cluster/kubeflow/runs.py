"""Runs on Kubeflow Pipelines: started, asked after, retried; and, for the message of a test that failed, what
became of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
DONE = {"Succeeded", "Failed", "Error"}  # as Argo calls what KFP does
UNHEARD = "PENDING"
PERSISTED = "pipeline/persistedFinalState"
WORKFLOW, PUT_AWAY = "workflows.argoproj.io/workflow", "workflows.argoproj.io/completed"
NO_ANSWER, BUSY = 0, {408, 429}
Answer = TypeVar("Answer")


def started(pipelines: kfp.Kfp, client: Client, start: Callable[[], Any], *, at_once: bool = False) -> str:
    """The id of a run of which KFP has heard how it gets on; `at_once`: whose workflow is there.

    On a machine that stands still KFP may hear of a workflow before the run is written down, and deletes it,
    be it after it has answered: docs/known-issues.md. What it has heard of a run afterwards, it has not.
    """
    for _ in range(ATTEMPTS):
        run = str(start().run_id)
        if _stays(pipelines, client, run, at_once=at_once):
            return run
    raise AssertionError(f"KFP has deleted the workflows of {ATTEMPTS} runs")


def _stays(pipelines: kfp.Kfp, client: Client, run: str, *, at_once: bool) -> bool:
    deadline = time.monotonic() + SECONDS
    while workflows(pipelines, run):
        if at_once or told(client, run).state != UNHEARD:
            return True
        assert time.monotonic() < deadline, f"run {run}: KFP has heard nothing of it within {SECONDS:g} s"
        time.sleep(LOOK)
    return False


def told(client: Client, run: str) -> Any:
    """What KFP says of a run."""
    return answered(partial(client.get_run, run))


def answered(ask: Callable[[], Answer]) -> Answer:
    """What KFP answers to a question; it is asked again where the machine stood still meanwhile."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except (ApiException, HTTPError) as problem:
            status = problem.status if isinstance(problem, ApiException) else NO_ANSWER
            if not (status == NO_ANSWER or status in BUSY or status >= 500) or time.monotonic() > deadline:
                raise
        time.sleep(LOOK)


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


def retry(pipelines: kfp.Kfp, client: Client, run: str) -> None:
    """What "Retry" does, once Argo and KFP have done with the run; their client has no word for it.

    Too early, Argo forgets the run or KFP deletes its workflow: docs/known-issues.md.
    """
    away = partial(_is_put_away, pipelines, run)
    until(away, what=f"Argo and KFP have done with run {run}", seconds=SECONDS)
    client._run_api.run_service_retry_run(run)


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
