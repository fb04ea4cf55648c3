"""`python -m elastic_runtime.worker`: one worker, started by its master or by hand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from elastic_runtime.observe import log as logs
from elastic_runtime.platform.process.child import settle
from elastic_runtime.rpc.token import token_from_environment
from elastic_runtime.spec.entry import command_line, outcome, undisturbed
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.work import Model
from elastic_runtime.worker.app import Worker

if TYPE_CHECKING:
    from elastic_runtime.worker.compute import Compute


def main() -> int:
    """Join the master, which knows what the job is."""
    own = command_line("worker")
    logs.set_up(own.log_level)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    name = os.environ.get("ELASTICDL_POD") or f"worker-{own.worker_id}"
    worker = Worker(
        name=name,
        index=own.worker_id,
        master=own.master_addr,
        token=token_from_environment(),
        orphan_timeout=own.orphan_timeout or 30.0,
    )
    return worker.run(lambda settings, incarnation: _build(own, settings, name, incarnation))


def _build(own: JobSpec, settings: str, name: str, incarnation: str) -> Compute:
    """From the master's specification; what this worker was told itself about the model goes first."""
    with undisturbed():
        from elastic_runtime.worker.build import build

    said = {field: getattr(own, field) for field in own.model_fields_set & Model.model_fields.keys()}
    spec = JobSpec.from_json(settings).model_copy(update=said)
    return build(
        spec, worker=name, worker_id=own.worker_id, incarnation=incarnation, token=token_from_environment()
    )


if __name__ == "__main__":
    settle(lambda: outcome(main))
