"""The simulated platform: pods in virtual time, and a whole job on it."""

import asyncio
import time

import pytest
from benchmarks.simulated_job import SimulatedJob

from elastic_runtime.master.ledger import Ledger, Source
from elastic_runtime.platform.pods import EXIT_DRAINED, ExitCause, Phase, PodSpec, Role
from elastic_runtime.platform.simulated import DeadlockError, SimulatedPlatform, run


def a_spec(index=0):
    return PodSpec(f"worker-{index}", "job", Role.WORKER, index, ())


async def forever(spec):
    await asyncio.sleep(1e9)
    return 0


def lives(changes):
    """What became of each pod, as (name, phase, cause)."""
    return [(pod.name, pod.phase, pod.cause) for pod in changes]


async def watched(platform, until):
    """All changes until the coroutine is done."""
    watch = await platform.watch()
    await until
    watch.tell(None)
    return [pod async for pod in watch.changes()]


def test_virtual_time_passes_without_waiting():
    async def main():
        loop = asyncio.get_running_loop()
        woken = []
        for seconds in (3600, 1, 86_400 * 365):
            loop.call_later(seconds, woken.append, seconds)
        await asyncio.sleep(86_400 * 366)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 10)
        return woken, loop.time()

    begin = time.monotonic()
    assert run(main()) == ([1, 3600, 86_400 * 365], pytest.approx(86_400 * 366 + 10))
    assert time.monotonic() - begin < 60


def test_what_waits_for_ever_is_an_error():
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="1 tasks wait for ever"):
        run(main())


def test_a_pod_is_pending_then_running_then_ended_with_its_exit_code():
    async def main():
        async def program(spec):
            await asyncio.sleep(5)
            return (0, 1, EXIT_DRAINED)[spec.index]

        platform = SimulatedPlatform(program, start_delay=(10, 20))

        async def start_all():
            for index in range(4):
                await platform.start(a_spec(index))
            await asyncio.sleep(100)

        changes = await watched(platform, start_all())
        assert await platform.list() == []
        return changes

    changes = run(main())
    ends = {pod.index: pod for pod in changes if pod.phase is Phase.ENDED}
    causes = [ExitCause.COMPLETED, ExitCause.ERROR, ExitCause.DRAINED, ExitCause.ERROR]
    assert [ends[index].cause for index in range(4)] == causes
    assert "IndexError" in ends[3].detail
    for index in range(4):
        assert [phase for name, phase, _ in lives(changes) if name == f"worker-{index}"] == list(Phase)


def test_start_is_idempotent_until_the_pod_has_ended():
    async def main():
        platform = SimulatedPlatform(forever)
        first = await platform.start(a_spec())
        assert await platform.start(a_spec()) == first
        await asyncio.sleep(1)
        platform.kill("worker-0")
        assert (await platform.start(a_spec())).started == 1
        assert [pod.phase for pod in await platform.list()] == [Phase.PENDING]

    run(main())


def test_stopping_lets_the_program_drain_and_ends_it_when_it_does_not():
    async def drains(spec):
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            await asyncio.sleep(3 if spec.index == 0 else 1e9)
            return EXIT_DRAINED
        return 0

    async def main():
        platform = SimulatedPlatform(drains)
        for index in range(2):
            await platform.start(a_spec(index))
        await asyncio.sleep(1)
        changes = await watched(platform, platform.stop_all(grace=30))
        assert asyncio.get_running_loop().time() == 31
        return [(pod.index, pod.cause) for pod in changes]

    assert run(main()) == [(0, ExitCause.DRAINED), (1, ExitCause.PREEMPTED)]


def test_pods_without_room_wait_and_less_room_preempts_the_youngest():
    async def main():
        platform = SimulatedPlatform(forever, capacity=2)
        for index in range(4):
            await platform.start(a_spec(index))
        phases = []
        for capacity in (2, 3, 1, None):
            platform.set_capacity(capacity)
            await asyncio.sleep(1)
            phases.append({pod.index: pod.phase.value for pod in await platform.list()})
        return phases

    assert run(main()) == [
        {0: "running", 1: "running", 2: "pending", 3: "pending"},
        {0: "running", 1: "running", 2: "running", 3: "pending"},
        {0: "running", 3: "pending"},
        {0: "running", 3: "running"},
    ]


def test_a_watch_begins_with_the_pods_there_are_and_ends_with_the_platform():
    async def main():
        platform = SimulatedPlatform(forever)
        await platform.start(a_spec(0))
        await platform.start(a_spec(1))
        await asyncio.sleep(1)
        platform.kill("worker-0", ExitCause.NODE_LOST)
        asyncio.get_running_loop().call_later(1, asyncio.ensure_future, platform.close())
        watch = await platform.watch()
        return watch.pods, [pod async for pod in watch.changes()]

    pods, changes = run(main())
    assert changes == []
    assert lives(pods) == [
        ("worker-0", Phase.ENDED, ExitCause.NODE_LOST),
        ("worker-1", Phase.RUNNING, None),
    ]


def test_followed_logs_end_with_the_pod():
    async def main():
        platform = SimulatedPlatform(forever, lifetime=100.0)
        await platform.start(a_spec())
        followed = [line async for line in platform.logs("worker-0", follow=True)]
        return followed, [line async for line in platform.logs("worker-0")]

    followed, last = run(main())
    assert [line.split()[1] for line in followed] == ["pending", "running", "ended:"]
    assert last == followed[-1:]


def a_job(workers, shards, seed=1):
    sources = [Source(f"data-{number}", shards * 10) for number in range(10)]
    ledger = Ledger(sources, records_per_shard=100, epochs=2, seed=seed, lease_seconds=60.0)
    return SimulatedJob(ledger, workers, lifetime=500.0, seed=seed, hanging=0.001)


def test_a_thousand_preempted_workers_do_every_record_of_both_epochs_exactly_once():
    job = a_job(workers=1000, shards=15_000)
    job.run()
    assert job.ledger.finished
    for epoch in range(2):
        assert job.ledger.done_intervals(epoch) == {f"data-{number}": [(0, 150_000)] for number in range(10)}
    assert job.ledger.records_done == job.ledger.records_total == 3_000_000
    assert job.ledger.records_retrained > 0
    assert job.relaunches > 100
    assert job.refused > 0


def test_the_same_seed_gives_the_same_job_to_the_last_decision():
    first, second, other = (a_job(workers=100, shards=500, seed=seed) for seed in (1, 1, 2))
    for job in (first, second, other):
        job.run()
    assert (first.decisions, first.ledger.state()) == (second.decisions, second.ledger.state())
    assert first.decisions != other.decisions
