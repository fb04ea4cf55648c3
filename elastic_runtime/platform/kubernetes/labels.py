"""What the objects of a job are called, and the labels by which they, and pods among them, are found again.

The job's label is written in both spellings: the tutorials select by the one with underscores, later tools
by the other. Role and index are on pods and services only.
"""

from __future__ import annotations

from elastic_runtime.platform.pods import Role

JOB, JOB_LATER = "elasticdl_job_name", "elasticdl-job-name"
ROLE, INDEX = "elasticdl-replica-type", "elasticdl-replica-index"
_MANAGED_BY = "app.kubernetes.io/managed-by"
IDENTITY = (JOB, JOB_LATER, ROLE, INDEX, _MANAGED_BY)
"""What the program itself looks for; the other labels are for people and their tools."""
ANY_JOB = f"{_MANAGED_BY}=elasticdl,{JOB}"
"""The selector of every object of every job."""
MASTERS = f"{ANY_JOB},{ROLE}={Role.MASTER}"
"""The selector of every job's master."""


def anchor_name(job: str) -> str:
    """What the job's ConfigMap and Secret are called."""
    return f"elasticdl-{job}"


def labels(job: str, role: Role | None = None, index: int = 0) -> dict[str, str]:
    """All labels of an object of the job; with `role`, of a pod or service."""
    found = {
        "app": "elasticdl",
        JOB: job,
        JOB_LATER: job,
        "app.kubernetes.io/name": "elasticdl",
        "app.kubernetes.io/instance": job,
        _MANAGED_BY: "elasticdl",
    }
    if role is not None:
        found |= {ROLE: role.value, INDEX: str(index), "app.kubernetes.io/component": role.value}
    return found


def one(job: str, role: Role, index: int) -> dict[str, str]:
    """The labels that pick the pods of one place: the replacement of a parameter server, too."""
    return {JOB: job, ROLE: role.value, INDEX: str(index)}


def all_of(job: str) -> str:
    """The selector of every object of the job, as the tutorials type it."""
    return f"{JOB}={job}"


def master_of(job: str) -> str:
    """The selector of the job's master."""
    return f"{all_of(job)},{ROLE}={Role.MASTER}"


def pods_of(job: str) -> str:
    """The selector of the job's own pods and services; not of what users gave the job's label."""
    return f"{all_of(job)},{ROLE} in ({', '.join(Role)}),{INDEX}"
