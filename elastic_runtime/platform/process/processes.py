"""Waiting for processes and ending them, whoever's children they are.

A pidfd becomes readable when its process ends, so an end is an event for the loop, for adopted processes
too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

POD = "ELASTICDL_POD"


async def readable(file: int) -> None:
    """Wait until the descriptor can be read."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(file, wake)
    try:
        await ready
    finally:
        loop.remove_reader(file)


async def gone(pid: int) -> None:
    """Wait until the process has ended, reaped or not."""
    with contextlib.suppress(ProcessLookupError):
        file = os.pidfd_open(pid)
        try:
            await readable(file)
        finally:
            os.close(file)


def reap(pidfd: int) -> int | None:
    """The status of an ended process (a code, or minus a signal), or None if it is not a child of ours."""
    try:
        end = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    except ChildProcessError:
        return None
    assert end is not None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal every process of a group that was alive a moment ago."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


_LOOKS = 1000


async def end_group(group: int, pod: str) -> None:
    """Kill what is left of a pod's process group and wait until it is gone."""
    while members := _members(group, pod):
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*map(gone, members))


def _members(group: int, pod: str) -> list[int]:
    """The living processes of the group that are the pod's: its number may be a stranger's by now."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return []
    mark = f"{POD}={pod}".encode()
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_member(pid, group, mark)]


def _is_member(pid: int, group: int, mark: bytes) -> bool:
    try:
        state, _, its_group = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[:3]
        if int(its_group) != group or state in (b"Z", b"X"):
            return False
        return mark in _environment(pid)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _environment(pid: int) -> list[bytes]:
    """A process that is just becoming another program shows none for a moment."""
    for _ in range(_LOOKS):
        if found := Path(f"/proc/{pid}/environ").read_bytes():
            return found.split(b"\0")
    return []


def oom_kills() -> int:
    """How many processes of our control group the kernel has killed for memory, as far as it tells."""
    try:
        own = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
        events = Path("/sys/fs/cgroup", own, "memory.events").read_text().split()
        return int(events[events.index("oom_kill") + 1])
    except (OSError, ValueError):
        return 0
