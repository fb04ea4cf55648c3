"""The name of a step's job: the same whenever the step is run again, and another for every other step.

A pipeline names runs as it likes, and longer than a pod's name may be. What cannot be a job's name as it
stands is made one, always the same; without a name, the address of the step's output is what tells it from
all others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from elastic_runtime.errors import InputError
from elastic_runtime.spec import values
from elastic_runtime.steps.options import known

_DIGITS = 10


def job_name(text: str, *, given: bool = True) -> str:
    """The name that `text` amounts to; one that was not given by the user says only what the step does."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    if not given:
        return f"train-{digest}"
    try:
        return values.job_name(text)
    except InputError:
        clean = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "job"
        return f"{clean[: values.LONGEST_JOB_NAME - _DIGITS - 1].rstrip('-')}-{digest}"


def check(given: Mapping[str, object]) -> None:
    """Refuse the empty name, which many a parameter is by mistake: it is no job's."""
    if not str(known(given).get("job_name", "unknown")).strip():
        remedy = "give the job_name that the step train was given"
        raise InputError("no job is named", where="job_name", remedy=remedy)
