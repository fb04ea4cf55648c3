"""Whether a step that was told to end will be run again: who tells it does not say why, its workflow does.

A pod that is evicted, or drained with its node, has a successor that goes on with the job's pods. A workflow
that is stopped, terminated, out of time or deleted runs no step again, and the pods are to go at once. Where
the workflow may not be asked they go, too: better to begin anew than to leave something behind.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Any

from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import ApiError
from elastic_runtime.platform.kubernetes.objects import workflow_of

PATIENCE_SECONDS = 5.0
"""A pod that ends has 30 s for all it does."""
SKEW_SECONDS = 5.0
"""By which the clocks of two machines may differ."""


def will_be_run_again(namespace: str) -> bool:
    """Ask this pod's workflow."""
    api = Api.connect(namespace, patience=PATIENCE_SECONDS)
    try:
        workflow = workflow_of(api.get_pod(os.environ["ELASTICDL_POD"]))
        found = api.get_workflow(workflow.name) if workflow else None
    except ApiError:
        return False
    finally:
        api.close()
    return found is not None and goes_on(found, time.time())


def goes_on(workflow: dict[str, Any], now: float) -> bool:
    """Whether a workflow, as it is written, is not being ended."""
    deleted = workflow["metadata"].get("deletionTimestamp")
    return not (deleted or workflow["spec"].get("shutdown") or _is_out_of_time(workflow, now))


def _is_out_of_time(workflow: dict[str, Any], now: float) -> bool:
    """A limit of 0 is KFP's way to end a run."""
    limit: int | None = workflow["spec"].get("activeDeadlineSeconds")
    began: str | None = workflow.get("status", {}).get("startedAt")
    if limit is None or began is None:
        return limit == 0
    return now + SKEW_SECONDS >= datetime.fromisoformat(began).timestamp() + limit
