"""The clean-up step, a pipeline's exit handler: whatever is left of a job ends here.

A training step cleans up after itself, unless it is not given the time. Nothing left is no error: this step
runs after every pipeline, and nothing that it is told of how that ended can be relied on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import shutil
import signal
from pathlib import Path

from elastic_runtime.errors import InputError
from elastic_runtime.master.prepare import SPEC_FILE
from elastic_runtime.observe import figures
from elastic_runtime.platform.process.claim import LOCK, claim, holder_here
from elastic_runtime.platform.process.platform import ProcessPlatform
from elastic_runtime.steps.in_cluster import end_pods, is_in_cluster, run_that_has
from elastic_runtime.steps.job_name import check
from elastic_runtime.steps.job_name import job_name as name_of

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0


def clean_up(*, job_name: str, run_dir: str = "", remove_files: bool = False) -> list[str]:
    """End what is left of the job and return the names; with `remove_files` its run folder goes, too."""
    check({"job_name": job_name})
    job = name_of(job_name)
    folder = Path(run_dir or f"runs/{job}")
    if remove_files and not _is_of_a_job(folder):
        remedy = "name the run_dir that the step train was given"
        raise InputError("holds no job, and stays", where=f"run_dir={folder}", remedy=remedy)
    if is_in_cluster() and (run := run_that_has(job)):
        log.info("job %s is that of %s, and is left alone", job, run)
        return []
    gone = end_pods(job) if is_in_cluster() else []
    if folder.is_dir():
        gone += _end_processes(folder, job)
        if remove_files:
            shutil.rmtree(folder)
    if gone:
        log.info("job %s: %s ended: %s", job, figures.plural(len(gone), "pod"), ", ".join(gone))
    else:
        log.info("job %s: nothing was left", job)
    return gone


def _is_of_a_job(folder: Path) -> bool:
    """Whether nothing else can be lost with it."""
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return SPEC_FILE in there or there <= {LOCK}


def _end_processes(folder: Path, job: str) -> list[str]:
    try:
        held = claim(folder, job)
        gone = []
    except InputError:
        master = holder_here(folder)
        if master is None:
            raise
        _end_master(master)
        held, gone = claim(folder, job), ["master"]
    with held:  # no successor may begin meanwhile
        return gone + asyncio.run(_stop_pods(folder, job))


def _end_master(pid: int) -> None:
    """It is given the time to let its workers go."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:  # it has just ended, or is in a pod that its claim does not name
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(pidfd, number)
            if select.select([pidfd], [], [], GRACE_SECONDS)[0]:
                return
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)


async def _stop_pods(folder: Path, job: str) -> list[str]:
    platform = ProcessPlatform(folder, job)
    left = await platform.list()
    await platform.stop_all(GRACE_SECONDS)
    await platform.close()
    return [pod.name for pod in left]
