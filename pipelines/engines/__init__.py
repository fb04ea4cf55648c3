"""Where a pipeline can run, one module each.

They take what was compiled, show its steps while it runs, and give the pipeline's exit code. An engine is
found the way its own tools find it. Where it is not, it says why, and the next is tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from elastic_runtime.errors import InputError
from pipelines.packages import Package


class Absent(InputError):
    """There is no such engine here; the text says why."""


class Engine(Protocol):
    """One that was found."""

    why: str
    """What it is, and how it was found."""

    @property
    def package(self) -> Package:
        """What it would run."""
        ...

    def run(self) -> int:
        """Submit the package and follow it to its end; the exit code is the pipeline's."""
        ...


class Phase(Enum):
    """waiting -> running -> succeeded | failed; running -> waiting if it is tried again; or skipped."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a pipeline that runs."""

    name: str
    phase: Phase = Phase.WAITING
    detail: str = ""
    """What it waits for, how far it is, why it failed."""
    began: float | None = None
    ended: float | None = None


def why_failed(steps: Iterable[Step]) -> str:
    """Which of them failed, and what is known of it; empty if none did."""
    failed = (step for step in steps if step.phase is Phase.FAILED)
    return "; ".join(": ".join(filter(None, [step.name, step.detail])) for step in failed)
