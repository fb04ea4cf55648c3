"""The name of a step's job: the same whenever the step is run again, and another for every other step.

A pipeline names runs as it likes, and longer than a pod's name may be. What cannot be a job's name as it
stands is made one, always the same; without a name, the address of the step's output is what tells it from
all others.
"""

from __future__ import annotations

import hashlib
import re

from elastic_runtime.errors import InputError
from elastic_runtime.spec import values

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
