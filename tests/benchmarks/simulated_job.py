"""A job on the simulated platform: workers ask the ledger, train in virtual time, hang, and are preempted.

No master and no network: the ledger is driven directly, and every lost worker is replaced. What comes out
is the ledger at the job's end, for whoever wants to check or time it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass, field

from elastic_runtime.master.ledger import (
    Ask,
    Effect,
    Event,
    Expire,
    Finished,
    Granted,
    Ledger,
    NoWorkEver,
    Refused,
    Requeued,
    WorkerLost,
)
from elastic_runtime.platform.pods import ExitCause, Phase, PodSpec, Role, pod_name
from elastic_runtime.platform.simulated import SimulatedPlatform, run


@dataclass
class SimulatedJob:
    """`workers` at a time work the ledger empty; a shard takes about ten seconds, a lease a minute."""

    ledger: Ledger
    workers: int
    lifetime: float
    seed: int = 0
    hanging: float = 0.0001  # the share of shards at which a worker hangs for longer than its lease
    decisions: int = 0
    relaunches: int = 0
    refused: int = 0
    _idle: deque[asyncio.Future[None]] = field(default_factory=deque)

    def run(self) -> None:
        """The whole job, in virtual time."""
        self._chance = random.Random(self.seed)
        run(self._supervise())

    def tell(self, event: Event) -> list[Effect]:
        """Let the ledger decide, and wake as many idle workers as there are shards to hand out again."""
        self.decisions += 1
        effects = self.ledger.handle(event)
        wanted = sum(isinstance(effect, Requeued) for effect in effects)
        for _ in range(len(self._idle) if self.ledger.finished else min(wanted, len(self._idle))):
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
        return effects

    async def _supervise(self) -> None:
        platform = SimulatedPlatform(
            self._work, seed=self.seed, start_delay=(1.0, 30.0), lifetime=self.lifetime, capacity=self.workers
        )
        names = (pod_name("sim", Role.WORKER, number) for number in range(10**9))
        for index in range(self.workers):
            await platform.start(PodSpec(next(names), "sim", Role.WORKER, index, ()))
        expiring = asyncio.create_task(self._expire())
        async for pod in (await platform.watch()).states():
            if pod.phase is not Phase.ENDED:
                continue
            self.tell(WorkerLost(pod.name))
            assert pod.cause in (ExitCause.PREEMPTED, ExitCause.COMPLETED), pod
            if pod.cause is ExitCause.PREEMPTED and not self.ledger.finished:
                self.relaunches += 1
                await platform.start(PodSpec(next(names), "sim", Role.WORKER, pod.index, ()))
            elif not await platform.list():
                break
        expiring.cancel()

    async def _expire(self) -> None:
        """Look after deadlines once a second."""
        while True:
            await asyncio.sleep(1)
            for worker in self.ledger.overdue(asyncio.get_running_loop().time()):
                self.tell(Expire(worker))

    async def _work(self, spec: PodSpec) -> int:
        loop = asyncio.get_running_loop()
        while True:
            answer = self.tell(Ask(spec.name, loop.time()))[0]
            if isinstance(answer, NoWorkEver):
                return 0
            if isinstance(answer, Granted):
                hangs = self._chance.random() < self.hanging
                await asyncio.sleep(150.0 if hangs else self._chance.uniform(5.0, 15.0))
                reply = self.tell(Finished(spec.name, answer.lease, 1, loop.time()))[0]
                self.refused += isinstance(reply, Refused)
            else:
                self._idle.append(loop.create_future())
                await self._idle[-1]
