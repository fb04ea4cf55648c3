"""Pods of a cluster that does not exist: they wait for room, start after a delay, run, and are preempted by
chance.

What a pod does is a coroutine of its `PodSpec` that returns the exit code; it is cancelled when the pod is
stopped or killed. All chance comes from one seed and all time from the loop, so in virtual time ten
thousand pods live a day in seconds and every run is the same.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

from elastic_runtime.platform.pods import (
    EXIT_DRAINED,
    EXIT_ERROR,
    EXIT_NEVER_STARTED,
    EXIT_OUT_OF_MEMORY,
    ExitCause,
    Phase,
    Pod,
    PodSpec,
    Watch,
    Watches,
)

_KILLED, _TERMINATED = 137, 143
_CAUSES = {
    0: ExitCause.COMPLETED,
    EXIT_DRAINED: ExitCause.DRAINED,
    EXIT_OUT_OF_MEMORY: ExitCause.OUT_OF_MEMORY,
    EXIT_NEVER_STARTED: ExitCause.NEVER_STARTED,
    _TERMINATED: ExitCause.PREEMPTED,
}


@dataclass(slots=True)
class _Life:
    """A pod and what keeps it going."""

    pod: Pod
    spec: PodSpec
    task: asyncio.Task[None] | None = None
    preemption: asyncio.TimerHandle | None = None

    @property
    def ended(self) -> bool:
        return self.pod.phase is Phase.ENDED


class SimulatedPlatform:
    """A `Platform` with room for `capacity` pods, preempted after `lifetime` seconds on average."""

    def __init__(
        self,
        program: Callable[[PodSpec], Awaitable[int]],
        *,
        seed: int = 0,
        capacity: int | None = None,
        start_delay: tuple[float, float] = (0.0, 0.0),
        lifetime: float | None = None,
    ) -> None:
        self._program = program
        self._chance = random.Random(seed)  # noqa: S311 - chance, not secrets
        self._capacity, self._start_delay, self._lifetime = capacity, start_delay, lifetime
        self._lives: dict[str, _Life] = {}  # all there are or were
        self._waiting: deque[_Life] = deque()
        self._admitted: dict[str, _Life] = {}  # youngest last
        self._watches = Watches()

    async def start(self, spec: PodSpec) -> Pod:
        """Start the pod as soon as there is room, or return the one of that name."""
        life = self._lives.get(spec.name)
        if life is None or life.ended:
            now = asyncio.get_running_loop().time()
            pod = Pod(
                spec.name,
                spec.role,
                spec.index,
                Phase.PENDING,
                now,
                relaunched_because=spec.relaunched_because,
            )
            life = self._lives[spec.name] = _Life(pod, spec)
            self._waiting.append(life)
            self._change(life, pod)
            self._admit()
        return life.pod

    async def stop(self, name: str, grace: float) -> None:
        """Cancel the pod's program, give it `grace` seconds to return, and end the pod."""
        life = self._lives.get(name)
        if life is None or life.ended:
            return
        if life.task is not None:
            life.task.cancel()
            await asyncio.wait({life.task}, timeout=grace)
        self._end(life, _TERMINATED)

    async def stop_all(self, grace: float) -> None:
        """Stop every pod at the same time."""
        await asyncio.gather(*(self.stop(pod.name, grace) for pod in await self.list()))

    async def watch(self) -> Watch:
        """Each pod there is or was, and every change."""
        return self._watches.begin(await self.list(ended=True))

    async def list(self, *, ended: bool = False) -> list[Pod]:
        """All pods that are pending or running, or were."""
        if ended:
            return [life.pod for life in self._lives.values()]
        return [life.pod for life in [*self._admitted.values(), *self._waiting] if not life.ended]

    async def logs(self, name: str, *, follow: bool = False) -> AsyncIterator[str]:
        """What became of the pod; a simulated pod writes nothing else."""
        if name in self._lives and (not follow or self._lives[name].ended):
            yield _line(self._lives[name].pod)
            return
        async for pod in (await self.watch()).states():
            if pod.name == name:
                yield _line(pod)
                if pod.phase is Phase.ENDED:
                    return

    async def close(self) -> None:
        """End the watches."""
        self._watches.tell(None)

    def kill(self, name: str, cause: ExitCause = ExitCause.PREEMPTED) -> None:
        """The pod is gone at once, for a reason of the cluster's."""
        self._end(self._lives[name], _KILLED, cause)

    def set_capacity(self, pods: int | None) -> None:
        """Room for so many pods: the youngest are preempted, or those that wait get their turn."""
        self._capacity = pods
        if pods is not None:
            for name in list(self._admitted)[pods:]:
                self.kill(name)
        self._admit()

    def _admit(self) -> None:
        while self._waiting and (self._capacity is None or len(self._admitted) < self._capacity):
            life = self._waiting.popleft()
            if not life.ended:
                self._admitted[life.spec.name] = life
                life.task = asyncio.create_task(self._live(life), name=life.spec.name)

    async def _live(self, life: _Life) -> None:
        detail = ""
        try:
            await asyncio.sleep(self._chance.uniform(*self._start_delay))
            self._change(life, replace(life.pod, phase=Phase.RUNNING))
            if self._lifetime is not None:
                patience = self._chance.expovariate(1 / self._lifetime)
                life.preemption = asyncio.get_running_loop().call_later(patience, self.kill, life.spec.name)
            code = await self._program(life.spec)
        except asyncio.CancelledError:
            code = _TERMINATED
        except Exception as error:  # noqa: BLE001 - as with a process, the failure is the pod's
            code, detail = EXIT_ERROR, repr(error)
        self._end(life, code, detail=detail)

    def _end(self, life: _Life, code: int, cause: ExitCause | None = None, detail: str = "") -> None:
        if life.ended:
            return
        cause = cause or _CAUSES.get(code, ExitCause.ERROR)
        self._change(life, replace(life.pod, phase=Phase.ENDED, exit_code=code, cause=cause, detail=detail))
        self._admitted.pop(life.spec.name, None)
        if life.preemption is not None:
            life.preemption.cancel()
        if life.task is not None:
            life.task.cancel()
        self._admit()

    def _change(self, life: _Life, pod: Pod) -> None:
        life.pod = pod
        self._watches.tell(pod)


def _line(pod: Pod) -> str:
    return f"{pod.name} {pod.phase}" + (f": {pod.cause} ({pod.exit_code})" if pod.cause else "")
