"""Pods on Kubernetes: made once, watched, adopted by the next master, removed when they should be.

The API is asked in threads; all state is on the loop. A pod's end is told once: when its container has ended,
when the pod is gone, or when it is given up (an image that cannot be pulled). Pods that were disturbed
from outside and have successors go at once; others stay until the job is over, for `kubectl logs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from elastic_runtime.errors import ElasticError, InputError, nearest
from elastic_runtime.platform.exits import Verdict
from elastic_runtime.platform.kubernetes import state
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.belongings import own_service
from elastic_runtime.platform.kubernetes.container import own_container
from elastic_runtime.platform.kubernetes.errors import AlreadyThere, NoQuota
from elastic_runtime.platform.kubernetes.feed import PodFeed
from elastic_runtime.platform.kubernetes.making import Making, not_made
from elastic_runtime.platform.kubernetes.objects import Blueprint, Owner, owner_of, pod_of
from elastic_runtime.platform.kubernetes.patience import Patience, given_up
from elastic_runtime.platform.kubernetes.removal import GONE_SECONDS, seconds_to_go
from elastic_runtime.platform.pods import ExitCause, Phase, Pod, PodSpec, Role, Watch, Watches

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_REPLACED = (ExitCause.DRAINED, ExitCause.PREEMPTED, ExitCause.NODE_LOST)
_TAIL = 20
REMOVALS = 4
"""How often a pod that does not go is removed, the first time in its own way."""
QUOTA_SECONDS = 5.0
SLOW_SECONDS = 15.0
"""How long the container of a pod may take to be made before that is said."""


@dataclass(slots=True)
class _Life:
    """A pod as last seen, and what has been told of it."""

    seen: Any
    pod: Pod
    ended: bool = False
    patience: Patience = field(default_factory=Patience)
    making: Making = field(default_factory=lambda: Making(SLOW_SECONDS))


class KubernetesPlatform:
    """Runs the pods of one job in a namespace; see `Platform` for the contract."""

    def __init__(self, api: Api, blueprint: Blueprint, *, anchor: Owner, own_name: str = "") -> None:
        self._api, self._blueprint, self._anchor = api, blueprint, anchor
        self._own_name = own_name  # of the pod this process is in
        self._lives: dict[str, _Life] = {}
        self._launches: dict[str, asyncio.Task[Pod]] = {}
        self._turn = asyncio.Lock()  # who is asked for first has the last room of a quota
        self._unwanted: set[str] = set()
        self._gone: dict[str, asyncio.Event] = {}
        self._buried: set[str] = set()  # the uids of pods that are gone, and may be heard of late
        self._conclusions: set[asyncio.Task[None]] = set()
        self._watches = Watches()
        self._feed: PodFeed | None = None
        self._leaving = False

    async def start(self, spec: PodSpec) -> Pod:
        """Make the pod, or return the one of that name that has not ended."""
        await self._listed()
        launching = self._launches.get(spec.name)
        if launching is None:
            launching = self._launches[spec.name] = asyncio.create_task(self._launch(spec))
            launching.add_done_callback(lambda _: self._launches.pop(spec.name, None))
        return await asyncio.shield(launching)

    async def stop(self, name: str, grace: float) -> None:
        """Delete the pod; returns once it is gone, even if its node does not answer."""
        await self._listed()
        if launching := self._launches.get(name):
            self._unwanted.add(name)
            await asyncio.wait([launching])
            self._unwanted.discard(name)
        await self._remove(name, grace=grace)

    async def stop_all(self, grace: float) -> None:
        """Delete every pod but the master's at the same time; one that cannot be removed spares no other."""
        await self._listed()
        names = [n for n in {*self._launches, *self._lives} if not self._is_master(n)]
        stops = (self.stop(name, grace) for name in sorted(names))
        ends = await asyncio.gather(*stops, return_exceptions=True)
        problems = [end for end in ends if end is not None]
        for problem in problems:
            if len(problems) == 1 or not isinstance(problem, ElasticError):
                raise problem
        if problems:
            raise ElasticError("; ".join(map(str, problems)))

    async def watch(self) -> Watch:
        """Each pod there is, and every change; a pod that is being judged has not ended yet."""
        await self._judged()
        return self._watches.begin(self._pods())

    async def list(self, *, ended: bool = False) -> list[Pod]:
        """All pods that are pending or running, or were."""
        await self._judged()
        return [pod for pod in self._pods() if ended or pod.phase is not Phase.ENDED]

    async def logs(self, name: str, *, follow: bool = False) -> AsyncIterator[str]:
        """The lines a pod has written; with `follow`, those to come until it ends."""
        await self._listed()
        if name not in self._lives:
            raise InputError(f"no pod {name!r} in this job", remedy=nearest(name, self._lives))
        own = own_container(self._lives[name].seen)
        await self._begun(name)
        lines = self._api.pod_log(name, container=own.name, follow=follow)
        try:
            while (line := await asyncio.to_thread(next, lines, None)) is not None:
                yield line
        finally:
            lines.stop()

    async def close(self) -> None:
        """End the watches and let go of the pods; they run on."""
        tasks = [*self._launches.values(), *self._conclusions]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._feed is not None:
            await self._feed.close()
        self._watches.tell(None)

    def _pods(self) -> Sequence[Pod]:
        return [life.pod for life in self._lives.values() if life.pod.role is not Role.MASTER]

    async def _listed(self) -> None:
        if self._feed is None:
            self._feed = PodFeed(self._api, self._blueprint.selector, self._hear)
        await self._feed.listed()

    async def _judged(self) -> None:
        """What had ended before this platform looked is known by its cause."""
        await self._listed()
        if self._conclusions:
            await asyncio.wait(self._conclusions)

    async def _begun(self, name: str) -> None:
        """Before its container runs, a pod has no log."""
        async for pod in (await self.watch()).states():
            if pod.name == name and pod.phase is not Phase.PENDING:
                return

    async def _launch(self, spec: PodSpec) -> Pod:
        told = ""
        while True:
            life = self._lives.get(spec.name)
            if life and not life.ended and not life.seen.metadata.deletion_timestamp:
                return life.pod
            if life:
                await self._remove(spec.name, grace=0 if life.ended else None)
            if self._leaving:  # the whole job may be about to go: nothing new is made
                return Pod(spec.name, spec.role, spec.index, Phase.PENDING, time.time())
            try:
                async with self._turn:
                    made = await self._call(self._api.create_pod, self._blueprint.pod(spec, self._anchor))
            except AlreadyThere:  # made by a request whose answer was lost
                made = await self._call(self._api.get_pod, spec.name)
                if made is None:
                    continue
            except NoQuota as problem:
                if told != str(problem):
                    told = str(problem)
                    self._tell(self._waiting(spec, told))
                await asyncio.sleep(QUOTA_SECONDS)  # nothing tells when a quota has room
                if spec.name in self._unwanted:
                    return self._never_made(spec)
                continue
            await self._call(self._api.add_owner, self._anchor.name, owner_of(made))
            if spec.role is Role.PS:
                await self._call(self._serve, spec.index)
            if made.metadata.uid in self._buried:  # while this waited for the API
                return dataclasses.replace(pod_of(made), phase=Phase.ENDED, cause=ExitCause.PREEMPTED)
            if spec.name not in self._lives:
                self._hear(False, made)
            return self._lives[spec.name].pod

    def _serve(self, index: int) -> None:
        """A parameter server has its service as long as the job lasts, whichever pod is behind it."""
        own_service(self._api, self._blueprint.ps_service(index, self._anchor))

    def _waiting(self, spec: PodSpec, detail: str) -> Pod:
        return Pod(
            spec.name,
            spec.role,
            spec.index,
            Phase.PENDING,
            time.time(),
            relaunched_because=spec.relaunched_because,
            detail=detail,
        )

    def _never_made(self, spec: PodSpec) -> Pod:
        pod = dataclasses.replace(
            self._waiting(spec, "stopped before there was room"),
            phase=Phase.ENDED,
            cause=ExitCause.PREEMPTED,
        )
        self._tell(pod)
        return pod

    async def _remove(self, name: str, *, grace: float | None) -> None:
        """Delete the pod and wait until it is gone; after its time, without its node's word."""
        life = self._lives.get(name)
        if life is None:
            return
        gone = self._gone.setdefault(name, asyncio.Event())
        uid = life.seen.metadata.uid
        whole = None if grace is None else max(1 if grace > 0 else 0, math.ceil(grace))
        patience = seconds_to_go(life.seen, whole)
        for _ in range(REMOVALS):
            await self._call(self._api.delete_pod, name, grace=whole, uid=uid)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await gone.wait()
                    return
            log.warning("%s is still there after %.0f s: its object is removed", name, patience)
            whole, patience = 0, GONE_SECONDS
        raise ElasticError("the pod cannot be removed", where=name, remedy="see its finalizers")

    def _hear(self, deleted: bool, seen: Any) -> None:
        """The feed's word on a pod."""
        name = seen.metadata.name
        if name == self._own_name:
            self._leaving = self._leaving or deleted or bool(seen.metadata.deletion_timestamp)
        if deleted:
            self._buried.add(seen.metadata.uid)
        life = self._lives.get(name)
        if life is None or life.seen.metadata.uid != seen.metadata.uid:
            if deleted:
                return
            life = self._lives[name] = _Life(seen, pod_of(seen))
        before, life.seen = life.pod, seen
        if deleted:
            del self._lives[name]
            if not life.ended:
                self._end(life, state.verdict(seen, deleted=True))
            if gone := self._gone.pop(name, None):
                gone.set()
        elif not life.ended:
            self._look(life, before)

    def _look(self, life: _Life, before: Pod) -> None:
        phase = state.phase(life.seen)
        if phase is Phase.ENDED:
            life.ended = True
            self._spawn(self._conclude(life))
            return
        loop = asyncio.get_running_loop()
        until_slow = life.making.left(life.seen, loop.time())
        waits = state.waits_for(life.seen) or (not_made(life.seen) if until_slow <= 0 else "")
        detail = waits if phase is Phase.PENDING else f"on {life.seen.spec.node_name}"
        life.pod = dataclasses.replace(pod_of(life.seen), phase=phase, detail=detail)
        if (life.pod.phase, detail) != (before.phase, before.detail):
            self._tell(life.pod)
        left = life.patience.left(life.seen, loop.time())
        if left <= 0:
            self._end(life, given_up(life.seen))
            self._spawn(self._remove(life.pod.name, grace=0))
        for seconds in (left, until_slow):
            if 0 < seconds < math.inf:
                loop.call_later(seconds, self._look_again, life)
        if state.node_is_lost(life.seen):
            self._spawn(self._give_up(life))

    def _look_again(self, life: _Life) -> None:
        if self._lives.get(life.pod.name) is life and not life.ended:
            self._look(life, life.pod)

    async def _give_up(self, life: _Life) -> None:
        """A node that is lost will not say that the pod has ended."""
        await self._call(self._api.delete_pod, life.pod.name, grace=0, uid=life.seen.metadata.uid)

    async def _conclude(self, life: _Life) -> None:
        """The pod's container has ended: judge it, by its last words, too."""
        lines: Sequence[str] = ()
        verdict = state.verdict(life.seen)
        if verdict.cause is ExitCause.ERROR:
            with contextlib.suppress(ElasticError):
                lines = await self._call(self._last_lines, life.seen)
            verdict = state.verdict(life.seen, lines)
        self._end(life, verdict)
        if verdict.cause in _REPLACED and life.pod.role is not Role.MASTER:
            await self._call(self._api.delete_pod, life.pod.name, grace=0, uid=life.seen.metadata.uid)

    def _last_lines(self, seen: Any) -> Sequence[str]:
        return [*self._api.pod_log(seen.metadata.name, container=own_container(seen).name, tail=_TAIL)]

    def _end(self, life: _Life, verdict: Verdict) -> None:
        life.ended = True
        life.pod = dataclasses.replace(
            life.pod,
            phase=Phase.ENDED,
            cause=verdict.cause,
            exit_code=verdict.exit_code,
            detail=verdict.detail,
        )
        self._tell(life.pod)

    def _tell(self, pod: Pod) -> None:
        if pod.role is not Role.MASTER:
            self._watches.tell(pod)

    def _is_master(self, name: str) -> bool:
        return name in self._lives and self._lives[name].pod.role is Role.MASTER

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._conclusions.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._conclusions.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            log.warning("a pod of the job could not be looked after: %s", problem)

    async def _call(self, method: Callable[..., _Result], *arguments: Any, **named: Any) -> _Result:
        return await asyncio.to_thread(method, *arguments, **named)
