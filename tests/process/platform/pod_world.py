"""A run folder whose processes are marked, so that a test can count them, and ways to wait for pods."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from elastic_runtime.platform.pods import Pod, PodSpec, Role
from elastic_runtime.platform.process import ProcessPlatform

MARK = "TEST_RUN_FOLDER"
SECONDS = 240


class World:
    """One run folder, its platform, and the processes that carry its mark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.platform = ProcessPlatform(folder, "j")

    def spec(self, name: str, *command: str, index: int = 0, **env: str) -> PodSpec:
        return PodSpec(name, "j", Role.WORKER, index, command, {MARK: str(self.folder), **env}, "preempted")

    def python(self, name: str, code: str, **env: str) -> PodSpec:
        return self.spec(name, sys.executable, "-c", code, **env)

    def processes(self) -> list[int]:
        """Every living process that carries the mark."""
        mark = f"{MARK}={self.folder}".encode()
        return [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in _environment(pid)
        ]

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.log").read_text()


def _environment(pid: int) -> list[bytes]:
    """A process that is just becoming another program shows none for a moment; the kernel's own never."""
    process = Path(f"/proc/{pid}")
    try:
        for _ in range(200):
            if found := (process / "environ").read_bytes():
                return found.split(b"\0")
            (process / "exe").readlink()
            time.sleep(0.001)
    except OSError:
        pass
    return []


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for what nobody tells."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.02)


async def ended(platform: ProcessPlatform, name: str) -> Pod:
    """The pod's state once it has ended."""
    async for pod in (await platform.watch()).states():
        if pod.name == name and pod.cause is not None:
            return pod
    raise AssertionError("the watch ended first")


async def until_logged(platform: ProcessPlatform, name: str, text: str) -> None:
    """Wait until the pod has written this line."""
    async for line in platform.logs(name, follow=True):
        if line == text:
            return
    raise AssertionError(f"{name} ended without writing {text!r}")


def run(coroutine):
    """Run one coroutine to its end."""
    return asyncio.run(coroutine)
