"""The processes of a run on this machine, whoever started them, and their end.

A process belongs to a run if it carries the mark that pods hand down to all they start, or if it was started
for this job in this run folder. Whoever merely mentions the job's name does not.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.cli.runs import RUNS, Run
from elastic_runtime.platform.process.child import EXIT_RECORD

_KILL_SECONDS = 10.0
_ANOTHER_PROGRAM_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Found:
    """A process of the run, held by a descriptor so that its number cannot become a stranger's."""

    pid: int
    file: int


def processes_of(run: Run) -> list[Found]:
    """Every living process of this run but this one."""
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid != os.getpid() and _belongs(pid, run) and (process := hold(pid)):
            if _belongs(pid, run):
                found.append(process)
            else:
                os.close(process.file)
    return found


def end(found: Iterable[Found], grace: float) -> None:
    """SIGTERM to each, SIGKILL to those still there after `grace` seconds; returns once all are gone."""
    living = list(found)
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_SECONDS)):
        for process in living:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process.file, number)
        living = wait(living, seconds)


def wait(found: Iterable[Found], seconds: float) -> list[Found]:
    """Wait for their end; those still living after `seconds` are returned."""
    living = {process.file: process for process in found}
    poll, deadline = select.poll(), time.monotonic() + seconds
    for file in living:
        poll.register(file, select.POLLIN)
    while living and (left := deadline - time.monotonic()) > 0:
        for file, _ in poll.poll(left * 1000):
            poll.unregister(file)
            os.close(file)
            del living[file]
    return list(living.values())


def hold(pid: int) -> Found | None:
    """The process of this number, to be waited for; None if it has ended."""
    try:
        return Found(pid, os.pidfd_open(pid))
    except ProcessLookupError:
        return None


def _belongs(pid: int, run: Run) -> bool:
    if pid == run.master():
        return True
    here = Path("/proc") / str(pid)
    try:
        if here.stat().st_uid != os.getuid():
            return False
        arguments, environment = _words(here)
        folder = _folder_of(arguments, environment, run.job, (here / "cwd").readlink())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return folder is not None and folder.resolve() == run.folder.resolve()


def _words(here: Path) -> tuple[list[str], list[str]]:
    """Its arguments and its environment, which a process has not while it becomes another program."""
    deadline = time.monotonic() + _ANOTHER_PROGRAM_SECONDS
    while True:
        arguments, environment = (
            (here / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ")
        )
        (here / "exe").readlink()  # there is none of what has ended, nor of the kernel's own
        if environment or time.monotonic() > deadline:
            return arguments.split("\0"), environment.split("\0")
        time.sleep(0.001)


def _folder_of(arguments: list[str], environment: list[str], job: str, cwd: Path) -> Path | None:
    """The run folder that a process works for, if it is one of the job's."""
    for variable in environment:
        if variable.startswith(f"{EXIT_RECORD}="):
            return Path(variable.partition("=")[2]).parent.parent
    is_ours = any("elasticdl" in word or "elastic_runtime" in word for word in arguments)
    if f"--job_name={job}" not in arguments or not is_ours:
        return None
    given = [word.partition("=")[2] for word in arguments if word.startswith("--run_dir=")]
    return cwd / (given[-1] if given else RUNS / job)
