"""A claim that is waited for: a job's next master may be there before the one before it has ended.

On Kubernetes a master whose node hears nothing of the cluster runs on until it does, and its claim on a
volume holds as long. Nobody can take that from it, so the next one waits, and says so. One that waited in
vain ends as a master that makes room for another, which says nothing of how the job went.
"""

from __future__ import annotations

import fcntl
import json
import logging
import threading
import time
from contextlib import suppress
from pathlib import Path

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.platform.pods import EXIT_DRAINED
from elastic_runtime.platform.process.claim import LOCK, Claim, claim

log = logging.getLogger(__name__)


class StillHeld(ElasticError):
    """The job's earlier master has not ended; it may have when this is tried again."""

    exit_code = EXIT_DRAINED


def claim_in_turn(run_dir: Path, job: str, *, keep: bool = True, seconds: float) -> Claim:
    """Claim the folder; an earlier master of the same job, but of no other, is waited for."""
    until, said = time.monotonic() + seconds, False
    while True:
        try:
            return claim(run_dir, job, keep=keep)
        except InputError as refusal:
            if _holder(run_dir) not in (job, ""):
                raise
            if not said:
                log.warning("%s: waiting for its end, %.0f s at most", refusal, seconds)
                said = True
            if not _let_go(run_dir, until - time.monotonic()):
                raise StillHeld(
                    f"the earlier master of job {job!r} has not ended within {seconds:g} s",
                    where=str(run_dir),
                    remedy="the next one waits again; the job of another namespace needs another --run_dir",
                ) from refusal


def _holder(run_dir: Path) -> str:
    """The job whose master has the folder; empty if that is not written there yet, or no more."""
    try:
        return str(json.loads((run_dir / LOCK).read_text())["job"])
    except (OSError, ValueError, KeyError):
        return ""


def _let_go(run_dir: Path, seconds: float) -> bool:
    """Wait until nobody has the folder; false if somebody still has after this time.

    The lock has no time limit of its own: the thread that waits for it is left behind, and lets go at once
    should it ever get it.
    """
    free = threading.Event()

    def wait() -> None:
        with suppress(FileNotFoundError), (run_dir / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
        free.set()

    threading.Thread(target=wait, name="claim", daemon=True).start()
    return free.wait(max(0.0, seconds))
