"""One master for a run folder: the claim on it, released by the holder's death and by nothing else.

The lock, not the text in the file, decides; the text only tells a refused second master who the first one
is.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from types import TracebackType

from elastic_runtime.errors import InputError


class Claim:
    """The right to be the master of a run folder, until released or until this process ends."""

    def __init__(self, file: int) -> None:
        self._file: int | None = file

    def release(self) -> None:
        """Let another master have the folder."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def claim(run_dir: Path, job: str) -> Claim:
    """Claim the run folder for this process, or say which process has it."""
    run_dir.mkdir(parents=True, exist_ok=True)
    file = os.open(run_dir / "master.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        refusal = _refusal(file, run_dir)
        os.close(file)
        raise refusal from None
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps({"job": job, "pid": os.getpid(), "since": time.time()}).encode(), 0)
    return Claim(file)


def _refusal(file: int, run_dir: Path) -> InputError:
    try:
        holder = json.loads(os.pread(file, 4096, 0))
    except json.JSONDecodeError:
        return InputError("another master is just starting here", where=str(run_dir))
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["since"]))
    return InputError(
        f"job {holder['job']!r} is run by process {holder['pid']} since {since}",
        where=str(run_dir),
        remedy=f"wait for it, or end it with `elasticdl job stop {holder['job']}`",
    )
