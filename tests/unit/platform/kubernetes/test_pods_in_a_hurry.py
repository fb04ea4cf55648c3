"""Pods that are gone, or that nobody hears of, before whoever asked for them is told that they were made."""

from __future__ import annotations

import asyncio
import copy
import queue
import threading
from collections.abc import Iterator

import pytest

from elastic_runtime.platform.kubernetes import patience
from elastic_runtime.platform.kubernetes import platform as platforms
from elastic_runtime.platform.kubernetes.platform import KubernetesPlatform
from elastic_runtime.platform.pods import ExitCause, Phase
from tests.platform_contract import in_phase
from tests.unit.platform.kubernetes.plans import ANCHOR, child, plan
from tests.unit.platform.kubernetes.small_api import Event, SmallApi, is_deleted, is_on_a_node, runs


class Told:
    """A watch that tells what the test puts in."""

    def __init__(self) -> None:
        self._events = queue.SimpleQueue[Event | None]()

    def tell(self, kind: str, pod) -> None:
        self._events.put((kind, pod))

    def __iter__(self) -> Iterator[Event]:
        while (event := self._events.get(timeout=60)) is not None:
            yield event

    def stop(self) -> None:
        self._events.put(None)


class SlowApi(SmallApi):
    """It tells of a pod at once, but answers whoever has made it only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.told, self.answers = Told(), threading.Event()

    def watch_pods(self, *_: str) -> Told:
        return self.told

    def add_owner(self, *_: object) -> None:
        assert self.answers.wait(60), "the test is over"


def on_a_slow_api(scenario):
    async def run():
        api = SlowApi()
        platform = KubernetesPlatform(api, plan(), anchor=ANCHOR)
        try:
            async with asyncio.timeout(60):
                return await scenario(api, platform)
        finally:
            api.answers.set()
            await platform.close()

    return asyncio.run(run())


def test_a_pod_that_is_gone_before_its_making_was_answered_is_not_taken_for_one_that_is_there():
    async def scenario(api, platform):
        watch = await platform.watch()
        starting = asyncio.create_task(platform.start(child()))
        api.begins = lambda pod: (api.told.tell("ADDED", pod), is_deleted(pod), api.told.tell("DELETED", pod))
        end = await in_phase(watch, child().name, Phase.ENDED)
        api.answers.set()
        return end, await starting, await platform.list()

    end, started, left = on_a_slow_api(scenario)
    assert (end.cause, started.phase, left) == (ExitCause.PREEMPTED, Phase.ENDED, [])


def test_a_pod_that_its_node_says_nothing_of_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patience, "SILENT_SECONDS", 0.05)

    async def scenario(api, platform):
        def given_to_a_lost_node(pod):
            pod.spec.node_name = "lost"
            api.told.tell("ADDED", pod)

        def taken_away(name, **_):
            if (pod := api.pods.pop(name, None)) is not None:
                api.told.tell("DELETED", pod)

        api.begins, api.delete_pod = given_to_a_lost_node, taken_away
        api.answers.set()
        watch = await platform.watch()
        await platform.start(child())
        end = await in_phase(watch, child().name, Phase.ENDED)
        api.begins = lambda pod: api.told.tell("ADDED", pod)
        again = await platform.start(child())
        return end, again

    end, again = on_a_slow_api(scenario)
    assert end.cause is ExitCause.NODE_LOST
    assert end.detail == "its node is lost: lost has said nothing of it for 0.05 s"
    assert again.phase is Phase.PENDING


def test_a_worker_whose_container_takes_long_is_said_to_wait_for_it_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platforms, "SLOW_SECONDS", 0.05)

    async def scenario(api, platform):
        def on_a_node(pod):
            is_on_a_node(pod)
            api.told.tell("ADDED", pod)

        api.begins = on_a_node
        api.answers.set()
        watch = await platform.watch()
        await platform.start(child())
        seen = [pod async for pod in until_running(watch, api)]
        return [(pod.phase, pod.detail) for pod in seen]

    async def until_running(watch, api):
        async for pod in watch.states():
            yield pod
            if pod.phase is Phase.RUNNING:
                return
            for change in (is_on_a_node, runs):  # the first is nothing new
                changed = copy.deepcopy(api.pods[child().name])
                change(changed)
                api.told.tell("MODIFIED", changed)

    waits, begun = on_a_slow_api(scenario)
    command = f"kubectl describe pod {child().name} -n default"
    assert waits == (Phase.PENDING, f"its container is not made yet ({command})")
    assert begun[0] is Phase.RUNNING
