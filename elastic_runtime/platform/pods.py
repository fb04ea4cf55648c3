"""Pods as the rest of the program knows them, whatever runs them.

A `PodSpec` is the blueprint; a `Pod` is one started from it, as it is at a moment; a `Watch` tells of every
change. Kubernetes, this machine's processes and the simulation all speak in these terms, so the master
cannot tell them apart.
"""

from __future__ import annotations

import asyncio
import enum
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Role(enum.StrEnum):
    """What a pod is for."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"


class Phase(enum.StrEnum):
    """A pod's life: pending -> running -> ended; a pod may end without ever having run."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class ExitCause(enum.StrEnum):
    """Why a pod ended; each cause has its own budget in the fleet."""

    COMPLETED = "completed"
    DRAINED = "drained"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    OUT_OF_MEMORY = "out_of_memory"
    ERROR = "error"
    NEVER_STARTED = "never_started"


EXIT_ERROR = 1
"""An error of the program or of the user's code; every other code not named here counts as one too."""
EXIT_DRAINED = 75
"""A worker asked to leave (SIGTERM, drain order) has given its lease back (sysexits: EX_TEMPFAIL)."""
EXIT_OUT_OF_MEMORY = 71
"""An allocation was refused (sysexits: EX_OSERR)."""
EXIT_NEVER_STARTED = 127
"""The command could not be executed (as shells say it)."""
BEGIN_ANEW = "ELASTICDL_BEGIN_ANEW"
"""The variable in which a job's masters bear the wish of whoever submitted it with `--restart`."""


def pod_name(job: str, role: Role, number: int | None = None) -> str:
    """`elasticdl-<job>-master`, `elasticdl-<job>-ps-<i>`, `elasticdl-<job>-worker-<n>`."""
    return f"elasticdl-{job}-{role}" if number is None else f"elasticdl-{job}-{role}-{number}"


@dataclass(frozen=True, slots=True)
class PodSpec:
    """All that is needed to start a pod: `name` is its identity, `index` its place in its role."""

    name: str
    job: str
    role: Role
    index: int
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    relaunched_because: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A started pod as the platform sees it now."""

    name: str
    role: Role
    index: int
    phase: Phase
    started: float
    pid: int | None = None
    relaunched_because: str = ""
    exit_code: int | None = None
    cause: ExitCause | None = None
    detail: str = ""


class Watch:
    """The pods there were when it began, and every change since that moment: nothing falls in between."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self.pods = pods
        self._news: asyncio.Queue[Pod | None] = asyncio.Queue()

    def tell(self, pod: Pod | None) -> None:
        """A pod's new state; None ends the watch."""
        self._news.put_nowait(pod)

    async def changes(self) -> AsyncIterator[Pod]:
        """Each new state of each pod, until the platform is closed."""
        while pod := await self._news.get():
            yield pod

    async def states(self) -> AsyncIterator[Pod]:
        """The pods as they were when the watch began, then the changes."""
        for pod in self.pods:
            yield pod
        async for pod in self.changes():
            yield pod


class Watches:
    """All watches of a platform that somebody still holds."""

    def __init__(self) -> None:
        self._held: weakref.WeakSet[Watch] = weakref.WeakSet()

    def begin(self, pods: Sequence[Pod]) -> Watch:
        """A watch that knows these pods and hears what is told from now on."""
        watch = Watch(pods)
        self._held.add(watch)
        return watch

    def tell(self, pod: Pod | None) -> None:
        """Tell everyone who watches; None ends the watches."""
        for watch in self._held:
            watch.tell(pod)


class Platform(Protocol):
    """What can run a pod. `start` is idempotent by name, so an interrupted start can be asked for again."""

    async def start(self, spec: PodSpec) -> Pod:
        """Start the pod, or return the running pod of that name."""
        ...

    async def stop(self, name: str, grace: float) -> None:
        """Ask the pod to end (SIGTERM) and end it after `grace` seconds; returns once it is gone."""
        ...

    async def stop_all(self, grace: float) -> None:
        """Stop every pod of this job at the same time; returns once all are gone."""
        ...

    async def watch(self) -> Watch:
        """Every pod of this job there is or was, and from then on every change."""
        ...

    async def list(self, *, ended: bool = False) -> list[Pod]:
        """All pods of this job that are pending or running; with `ended`, also those that were."""
        ...

    def logs(self, name: str, *, follow: bool = False) -> AsyncIterator[str]:
        """The lines a pod has written; with `follow`, those to come until it ends."""
        ...

    async def close(self) -> None:
        """End the watches and let go of what they hold; the pods run on."""
        ...
