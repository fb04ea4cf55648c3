"""One master for a run folder: the claim on it, released by the holder's death and by nothing else.

The lock, not the text in the file, decides; the text only tells a refused second master who the first one
is, and where: the folder may be on a volume of several pods, and in each a process id means another process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from elastic_runtime.errors import InputError

LOCK = "master.lock"
_POD_NAMES = ("ELASTICDL_POD", "KFP_POD_NAME", "ARGO_POD_NAME")


class Claim:
    """The right to be the master of a run folder, until released or until this process ends."""

    def __init__(self, file: int, folder: Path, *, keep: bool, made: list[Path]) -> None:
        self._file: int | None = file
        self._folder, self._keep, self._made = folder, keep, made

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
        if isinstance(error, InputError) and [path.name for path in self._folder.iterdir()] == [LOCK]:
            (self._folder / LOCK).unlink()  # nothing was begun: nothing shall look as if it had been
            with contextlib.suppress(OSError):  # another job has begun in the same folder
                for folder in [self._folder, *self._made]:
                    folder.rmdir()
        elif not self._keep:
            (self._folder / LOCK).unlink(missing_ok=True)
        self.release()


def claim(run_dir: Path, job: str, *, keep: bool = True) -> Claim:
    """Claim the folder for this process, or say which process has it.

    `keep` leaves the word on who has had it there, for those who look at the job later.
    """
    made = [folder for folder in run_dir.parents if not folder.exists()]
    file = _locked(run_dir)
    os.ftruncate(file, 0)
    told = {"job": job, "pid": os.getpid(), "host": _here(), "since": time.time()}
    os.pwrite(file, json.dumps(told).encode(), 0)
    return Claim(file, run_dir, keep=keep, made=made)


def holder_here(run_dir: Path) -> int | None:
    """The process that the folder's text names, unless that is in another pod, or not written yet."""
    try:
        told = json.loads((run_dir / LOCK).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return int(told["pid"]) if _elsewhere(told) is None else None


def _here() -> str:
    """The pod or machine of this process; a host name, cut after 63 letters, may be that of several pods."""
    return next(filter(None, map(os.environ.get, _POD_NAMES)), socket.gethostname())


def _elsewhere(told: dict[str, Any]) -> str | None:
    """The pod or machine of the process that wrote this, if it is another one than here."""
    host = told.get("host", _here())  # who wrote none was only ever looked for here
    return None if host == _here() else str(host)


def _locked(run_dir: Path) -> int:
    while True:
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            file = os.open(run_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # its last holder has just removed it
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refusal = _refusal(file, run_dir)
            os.close(file)
            raise refusal from None
        if os.fstat(file).st_nlink:
            return file
        os.close(file)


def _refusal(file: int, run_dir: Path) -> InputError:
    try:
        holder = json.loads(os.pread(file, 4096, 0))
    except json.JSONDecodeError:
        return InputError("another master is just starting here", where=str(run_dir))
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["since"]))
    place, end = "", f"end it with `elasticdl job stop {holder['job']}`"
    if host := _elsewhere(holder):
        place, end = f" in {host}", f"end it there: `kubectl delete pod {host}` if that is a pod"
    return InputError(
        f"job {holder['job']!r} is run by process {holder['pid']}{place} since {since}",
        where=str(run_dir),
        remedy=f"wait for it, or {end}",
    )
