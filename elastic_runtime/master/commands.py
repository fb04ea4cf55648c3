"""The command lines of a job's pods, built from its specification each time anew."""

from __future__ import annotations

from dataclasses import dataclass

from elastic_runtime.master.fleet import StartPod
from elastic_runtime.platform.pods import Role
from elastic_runtime.spec.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where pods' programs run, and find each other."""

    address: str
    """Of the master, and its successor: `host:port`, or `@file` that holds it."""
    python: str
    """What runs a pod's program."""
    ps_options: tuple[str, ...] = ()
    """Where parameter servers listen, and are reached."""


def command(spec: JobSpec, start: StartPod, place: Place) -> tuple[str, ...]:
    """What a pod runs. Workers ask the master for everything that is not said here."""
    common = [
        f"--job_name={spec.job_name}",
        f"--master_addr={place.address}",
        f"--orphan_timeout={spec.orphan_timeout:g}",
        f"--log_level={spec.log_level}",
    ]
    if start.role is Role.WORKER:
        number = start.name.rsplit("-", 1)[1]
        return (place.python, "-m", "elastic_runtime.worker", *common, f"--worker_id={number}")
    return (
        place.python,
        "-m",
        "elastic_runtime.ps",
        *common,
        *place.ps_options,
        f"--ps_id={start.index}",
        f"--num_ps_pods={spec.num_ps_pods}",
        f"--use_async={str(spec.use_async).lower()}",
        f"--grads_to_wait={spec.grads_to_wait}",
        f"--sync_version_tolerance={spec.sync_version_tolerance}",
        f"--lr_staleness_modulation={str(spec.lr_staleness_modulation).lower()}",
        f"--evaluation_steps={spec.evaluation_steps if spec.validation_data else 0}",
        f"--checkpoint_steps={spec.checkpoint_steps}",
    )
