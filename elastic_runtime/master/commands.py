"""The command lines of a job's pods, built from its specification each time anew."""

from __future__ import annotations

from elastic_runtime.master.fleet import StartPod
from elastic_runtime.master.surroundings import Surroundings
from elastic_runtime.platform.pods import Role
from elastic_runtime.spec.job import JobSpec


def command(spec: JobSpec, start: StartPod, surroundings: Surroundings) -> tuple[str, ...]:
    """What a pod runs. Workers ask the master for everything that is not said here."""
    common = [
        f"--job_name={spec.job_name}",
        f"--master_addr={surroundings.address}",
        f"--orphan_timeout={spec.orphan_timeout:g}",
        f"--log_level={spec.log_level}",
    ]
    python = surroundings.python
    if start.role is Role.WORKER:
        number = start.name.rsplit("-", 1)[1]
        return (python, "-m", "elastic_runtime.worker", *common, f"--worker_id={number}")
    return (
        python,
        "-m",
        "elastic_runtime.ps",
        *common,
        *surroundings.ps_options,
        f"--ps_id={start.index}",
        f"--num_ps_pods={spec.num_ps_pods}",
        f"--use_async={str(spec.use_async).lower()}",
        f"--grads_to_wait={spec.grads_to_wait}",
        f"--sync_version_tolerance={spec.sync_version_tolerance}",
        f"--lr_staleness_modulation={str(spec.lr_staleness_modulation).lower()}",
        f"--evaluation_steps={spec.evaluation_steps if spec.validation_data else 0}",
        f"--checkpoint_steps={spec.checkpoint_steps}",
    )
