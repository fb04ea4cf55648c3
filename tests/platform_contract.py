"""What every platform does with pods, whatever runs them: the same tests for processes and for a cluster.

A `world` is a fixture that gives a platform with nothing on it, makes specifications of small shell scripts,
and another platform over the same pods, as the next master has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.platform.pods import ExitCause, Phase, Platform, Pod, PodSpec, Watch

SECONDS = 600
LONG = "trap 'exit 75' TERM; echo on; sleep 1000 & wait $!"
STUBBORN = "trap '' TERM; echo on; sleep 1000"


class World(Protocol):
    """Where the tests of this module run."""

    def platform(self) -> Platform: ...

    def spec(self, number: int, script: str) -> PodSpec: ...


async def reached(platform: Platform, name: str, phase: Phase) -> Pod:
    """The pod, once it is in this phase."""
    return await in_phase(await platform.watch(), name, phase)


async def in_phase(watch: Watch, name: str, phase: Phase) -> Pod:
    """The pod, once the watch tells that it is in this phase."""
    async for pod in watch.states():
        if pod.name == name and pod.phase is phase:
            return pod
    raise AssertionError("the watch ended first")


async def ended(platform: Platform, name: str) -> Pod:
    """The pod, once it has ended."""
    return await reached(platform, name, Phase.ENDED)


async def running(platform: Platform, spec: PodSpec) -> Pod:
    """Start the pod, and wait until it runs."""
    await platform.start(spec)
    return await reached(platform, spec.name, Phase.RUNNING)


async def begun(platform: Platform, spec: PodSpec) -> None:
    """Start the pod, and wait until it has: a short life is over before anybody sees that it runs."""
    await platform.start(spec)
    async for pod in (await platform.watch()).states():
        if pod.name == spec.name and pod.phase is not Phase.PENDING:
            return


async def until_logged(platform: Platform, name: str, text: str) -> None:
    """Wait until the pod has written this line."""
    async for line in platform.logs(name, follow=True):
        if line == text:
            return
    raise AssertionError(f"{name} ended without writing {text!r}")


def on(world: World, scenario: Any) -> Any:
    """Run a scenario on a platform of the world, and take away what it left."""

    async def run() -> Any:
        platform = world.platform()
        try:
            async with asyncio.timeout(SECONDS):
                return await scenario(platform)
        finally:
            await platform.stop_all(1)
            await platform.close()

    return asyncio.run(run())


@pytest.mark.timeout(900)
class PlatformContract:
    """To be inherited beside a `world`."""

    @pytest.mark.parametrize(
        ("script", "cause", "code", "words"),
        [
            ("true", ExitCause.COMPLETED, 0, ""),
            ("exit 75", ExitCause.DRAINED, 75, ""),
            ("echo; echo it broke; exit 3", ExitCause.ERROR, 3, "it broke"),
            ("echo MemoryError; exit 1", ExitCause.OUT_OF_MEMORY, 1, "MemoryError"),
            ("exit 71", ExitCause.OUT_OF_MEMORY, 71, "out of memory"),
        ],
    )
    def test_why_a_pod_ended_is_told(self, world, script, cause, code, words):
        async def scenario(platform):
            spec, watch = world.spec(0, script), await platform.watch()
            await platform.start(spec)
            return await in_phase(watch, spec.name, Phase.ENDED)

        pod = on(world, scenario)
        assert (pod.cause, pod.exit_code) == (cause, code)
        assert words in pod.detail

    def test_a_pod_started_again_is_the_one_that_runs(self, world):
        async def scenario(platform):
            spec = world.spec(0, LONG)
            await asyncio.gather(*(platform.start(spec) for _ in range(5)))
            await until_logged(platform, spec.name, "on")
            again = await platform.start(world.spec(0, "exit 1"))
            return again, await platform.list()

        again, listed = on(world, scenario)
        assert [pod.name for pod in listed] == [again.name]
        assert again.phase is not Phase.ENDED

    def test_a_name_can_be_used_again_once_its_pod_has_ended(self, world):
        async def scenario(platform):
            await platform.start(world.spec(0, "exit 3"))
            name = world.spec(0, "").name
            assert (await ended(platform, name)).exit_code == 3
            return await running(platform, world.spec(0, LONG))

        assert on(world, scenario).phase is Phase.RUNNING

    def test_a_pod_that_is_asked_to_stop_may_end_in_its_own_way(self, world):
        async def scenario(platform):
            spec = world.spec(0, LONG)
            await running(platform, spec)
            await until_logged(platform, spec.name, "on")
            watch = await platform.watch()
            await platform.stop(spec.name, 20)
            return await in_phase(watch, spec.name, Phase.ENDED), await platform.list()

        pod, left = on(world, scenario)
        assert pod.cause in (ExitCause.DRAINED, ExitCause.PREEMPTED)
        assert left == []

    def test_a_pod_that_will_not_stop_is_ended_after_its_grace(self, world):
        async def scenario(platform):
            spec = world.spec(0, STUBBORN)
            await running(platform, spec)
            await until_logged(platform, spec.name, "on")
            watch = await platform.watch()
            await platform.stop(spec.name, 1)
            return await in_phase(watch, spec.name, Phase.ENDED)

        assert on(world, scenario).cause is ExitCause.PREEMPTED

    def test_all_pods_are_stopped_at_the_same_time(self, world):
        async def scenario(platform):
            specs = [world.spec(number, LONG) for number in range(3)]
            await asyncio.gather(*(running(platform, spec) for spec in specs))
            await platform.stop_all(20)
            return await platform.list()

        assert on(world, scenario) == []

    def test_the_next_master_finds_the_pods_that_run_and_hears_of_their_end(self, world):
        async def scenario(platform):
            spec = world.spec(0, LONG)
            await running(platform, spec)
            await until_logged(platform, spec.name, "on")
            await platform.close()
            successor = world.platform()
            try:
                [found] = await successor.list()
                watch = await successor.watch()
                await successor.stop(spec.name, 20)
                await in_phase(watch, spec.name, Phase.ENDED)
                return found, watch.pods
            finally:
                await successor.close()

        found, seen = on_successor(world, scenario)
        assert (found.phase, found.relaunched_because) == (Phase.RUNNING, "preempted")
        assert seen == [found]

    def test_whoever_sees_a_pod_alive_is_told_of_its_end(self, world):
        """Watches are begun again and again until the pod is gone."""

        async def scenario(platform):
            spec = world.spec(0, LONG)
            await running(platform, spec)
            await until_logged(platform, spec.name, "on")
            await platform.close()
            successor = world.platform()
            try:
                stopping = asyncio.create_task(successor.stop(spec.name, 20))
                watches = []
                while not stopping.done():
                    watches.append(await successor.watch())
                    if len(watches) > 20_000:  # where the pod takes its time: of the early ones every second
                        del watches[:10_000:2]
                    await asyncio.sleep(0)
            finally:
                await successor.close()
            return [(watch.pods, [pod async for pod in watch.changes()]) for watch in watches]

        for seen, told in on_successor(world, scenario):
            living = {pod.name for pod in seen if pod.phase is not Phase.ENDED}
            assert living <= {pod.name for pod in told if pod.phase is Phase.ENDED}

    def test_a_pod_that_ended_while_no_master_was_there_is_judged_by_the_next(self, world):
        async def scenario(platform):
            spec = world.spec(0, "sleep 1; exit 3")
            await begun(platform, spec)
            await platform.close()
            successor = world.platform()
            try:
                return await ended(successor, spec.name)
            finally:
                await successor.stop_all(1)
                await successor.close()

        assert on_successor(world, scenario).exit_code in (3, None)

    def test_the_log_of_a_pod_can_be_read_and_of_none_there_is_none(self, world):
        async def scenario(platform):
            spec = world.spec(0, "echo one; echo two")
            await platform.start(spec)
            lines = [line async for line in platform.logs(spec.name, follow=True)]
            with pytest.raises(InputError, match="no pod"):
                [line async for line in platform.logs("elasticdl-nobody")]
            return lines

        assert on(world, scenario) == ["one", "two"]


def on_successor(world: World, scenario: Any) -> Any:
    """Run a scenario that closes its platform itself."""
    work: Coroutine[Any, Any, Any] = scenario(world.platform())

    async def run() -> Any:
        async with asyncio.timeout(SECONDS):
            return await work

    return asyncio.run(run())
