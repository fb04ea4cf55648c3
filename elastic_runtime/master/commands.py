"""The command lines of a job's pods, built from its specification each time anew."""

from __future__ import annotations

import sys

from elastic_runtime.platform.pods import Role
from elastic_runtime.spec.job import JobSpec


def command(spec: JobSpec, role: Role, *, index: int, name: str, master: str) -> tuple[str, ...]:
    """What a pod runs; `master` is where its master is found. Workers ask the master for everything else."""
    common = [
        f"--job_name={spec.job_name}",
        f"--master_addr={master}",
        f"--orphan_timeout={spec.orphan_timeout:g}",
        f"--log_level={spec.log_level}",
    ]
    if role is Role.WORKER:
        return (
            sys.executable,
            "-m",
            "elastic_runtime.worker",
            *common,
            f"--worker_id={name.rsplit('-', 1)[1]}",
        )
    return (
        sys.executable,
        "-m",
        "elastic_runtime.ps",
        *common,
        f"--ps_id={index}",
        f"--num_ps_pods={spec.num_ps_pods}",
        f"--use_async={str(spec.use_async).lower()}",
        f"--grads_to_wait={spec.grads_to_wait}",
        f"--sync_version_tolerance={spec.sync_version_tolerance}",
        f"--lr_staleness_modulation={str(spec.lr_staleness_modulation).lower()}",
        f"--evaluation_steps={spec.evaluation_steps if spec.validation_data else 0}",
        f"--checkpoint_steps={spec.checkpoint_steps}",
    )
