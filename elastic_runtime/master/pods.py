"""Carries out what the fleet decides: starts and stops pods, and tells it what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from elastic_runtime.master import fleet
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.platform.pods import ExitCause, Phase, Platform, Pod, PodSpec, Role, Watch

MakeSpec = Callable[[fleet.StartPod], PodSpec]


class Pods:
    """The platform's pods on the one side, the fleet's decisions on the other.

    `tell` passes an event to the fleet and carries out what follows; `changed` hears of a pod's new state.
    """

    def __init__(
        self,
        platform: Platform,
        *,
        tell: Callable[[Any], list[Any]],
        tasks: Tasks,
        make_spec: MakeSpec,
        changed: Callable[[Pod, bool], None],
    ) -> None:
        self._platform, self._tell, self._make_spec, self._changed = platform, tell, make_spec, changed
        self._tasks = tasks
        self.present: dict[str, Pod] = {}
        self._ended = asyncio.Event()
        self._ending = False

    async def begin(self) -> None:
        """Tell the fleet of the pods that are or were there, then let it bring itself up to its size."""
        watch = await self._platform.watch()
        for pod in watch.pods:
            if pod.phase is not Phase.ENDED:
                self.present[pod.name] = pod
            is_news = self._tell(fleet.PodSeen(pod, time.time())) or pod.name in self.present
            if is_news:  # not one whose end an earlier master has seen
                self._changed(pod, True)
        self._tasks.spawn(self._watch(watch))
        self._tell(fleet.Begin(time.time()))

    def carry_out(self, effect: Any) -> None:
        """Start or stop a pod."""
        match effect:
            case fleet.StartPod():
                self._tasks.spawn(self._start(self._make_spec(effect)))
            case fleet.StopPod(name, grace):
                self._tasks.spawn(self._platform.stop(name, grace))

    def end(self, name: str) -> None:
        """End a pod that should not be there any more; the fleet will judge what follows."""
        self._tasks.spawn(self._platform.stop(name, 1.0))

    async def workers_gone(self) -> None:
        """Wait until no worker's pod is there any more."""
        while any(pod.role is Role.WORKER for pod in self.present.values()):
            self._ended.clear()
            await self._ended.wait()

    async def stop_all(self, grace: float) -> None:
        """End every pod; what does not end in time is killed. From now on no end is a loss."""
        self._ending = True
        await self._platform.stop_all(grace)

    async def close(self) -> None:
        """Let go of the pods; those that run go on."""
        await self._platform.close()

    async def _start(self, spec: PodSpec) -> None:
        pod = await self._platform.start(spec)
        if pod.phase is not Phase.ENDED:
            self.present[pod.name] = pod

    async def _watch(self, watch: Watch) -> None:
        async for change in watch.changes():
            pod = self._as_asked(change)
            self._changed(pod, False)
            match pod.phase:
                case Phase.RUNNING:
                    self.present[pod.name] = pod
                    self._tell(fleet.PodRunning(pod.name))
                case Phase.ENDED:
                    self.present.pop(pod.name, None)
                    self._ended.set()
                    assert pod.cause is not None
                    self._tell(fleet.PodEnded(pod.name, pod.cause, pod.exit_code, pod.detail, time.time()))

    def _as_asked(self, pod: Pod) -> Pod:
        """A pod that was stopped because the job is over was not preempted."""
        if self._ending and pod.cause is ExitCause.PREEMPTED:
            return replace(pod, cause=ExitCause.COMPLETED, detail="stopped at the job's end")
        return pod
