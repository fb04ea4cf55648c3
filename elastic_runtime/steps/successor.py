"""What becomes of a run after this step: who tells a step to end does not say why, its workflow does.

A pod that is evicted, or drained with its node, has a successor that goes on with the job's pods. A workflow
that is stopped, terminated, out of time or deleted runs no step again, and the pods are to go at once. Where
the workflow may not be asked they go, too: better to begin anew than to leave something behind.

A job that has failed is left for another attempt, and for the run's exit handler. In a run that was retried
KFP runs no handler that has succeeded before, so after the last attempt nobody would clean up.
"""

from __future__ import annotations

import os
import re
import time
from datetime import datetime
from typing import Any

from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import ApiError
from elastic_runtime.platform.kubernetes.objects import workflow_of
from elastic_runtime.steps.namesake import NODE

_HANDLER = ".onExit"
_ATTEMPT = re.compile(r"\((\d+)\)$")
_MOST_ATTEMPTS = "retry-max-count"
PATIENCE_SECONDS = 5.0
"""A pod that ends has 30 s for all it does."""
SKEW_SECONDS = 5.0
"""By which the clocks of two machines may differ."""


def will_be_run_again(namespace: str) -> bool:
    """Ask this pod's workflow."""
    found, _ = _own_place(namespace)
    return found is not None and goes_on(found, time.time())


def nobody_comes_after(namespace: str) -> bool:
    """Ask it whether this was the last attempt, and nothing runs that would clean up after it."""
    found, node = _own_place(namespace)
    return found is not None and handler_has_run(found, node) and not is_tried_again(found, node)


def _own_place(namespace: str) -> tuple[dict[str, Any] | None, str]:
    """This pod's workflow, if it can be asked, and the name of its node there."""
    api = Api.connect(namespace, patience=PATIENCE_SECONDS)
    try:
        own = api.get_pod(os.environ["ELASTICDL_POD"])
        workflow = workflow_of(own)
        if workflow is None:
            return None, ""
        return api.get_workflow(workflow.name), (own.metadata.annotations or {}).get(NODE, "")
    except ApiError:
        return None, ""
    finally:
        api.close()


def goes_on(workflow: dict[str, Any], now: float) -> bool:
    """Whether a workflow, as it is written, is not being ended."""
    deleted = workflow["metadata"].get("deletionTimestamp")
    return not (deleted or workflow["spec"].get("shutdown") or _is_out_of_time(workflow, now))


def handler_has_run(workflow: dict[str, Any], node: str) -> bool:
    """Whether the exit handler of a part of the workflow that has this node in it has succeeded."""
    done = (name for name, each in _nodes(workflow).items() if each.get("phase") == "Succeeded")
    return any(node.startswith(f"{name.removesuffix(_HANDLER)}.") for name in done if name.endswith(_HANDLER))


def is_tried_again(workflow: dict[str, Any], node: str) -> bool:
    """Whether the attempt that this node is has another one after it, by the number that KFP was given."""
    attempt = _ATTEMPT.search(node)
    step = _nodes(workflow).get(node[: attempt.start()], {}) if attempt else {}
    given = {each["name"]: each.get("value") for each in step.get("inputs", {}).get("parameters", [])}
    return attempt is not None and int(attempt[1]) < int(given.get(_MOST_ATTEMPTS) or 0)


def _nodes(workflow: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By their names; a very large workflow keeps them elsewhere."""
    return {each["name"]: each for each in (workflow.get("status", {}).get("nodes") or {}).values()}


def _is_out_of_time(workflow: dict[str, Any], now: float) -> bool:
    """A limit of 0 is KFP's way to end a run."""
    limit: int | None = workflow["spec"].get("activeDeadlineSeconds")
    began: str | None = workflow.get("status", {}).get("startedAt")
    if limit is None or began is None:
        return limit == 0
    return now + SKEW_SECONDS >= datetime.fromisoformat(began).timestamp() + limit
