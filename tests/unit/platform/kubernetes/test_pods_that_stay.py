"""Pods that were deleted and do not go: they are named, and spare no other."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator

import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.platform.kubernetes import platform as platforms
from elastic_runtime.platform.kubernetes.platform import KubernetesPlatform
from tests.unit.platform.kubernetes.plans import ANCHOR, child, plan
from tests.unit.platform.kubernetes.small_api import Event, SmallApi


class HoldingApi(SmallApi):
    """Somebody else's finalizer holds pods of these names; that others are gone is told at once."""

    def __init__(self, held: list[str]) -> None:
        super().__init__()
        self.held = held
        self._told = queue.SimpleQueue[Event | None]()

    def watch_pods(self, *_: str) -> HoldingApi:
        return self

    def __iter__(self) -> Iterator[Event]:
        while (event := self._told.get(timeout=60)) is not None:
            yield event

    def stop(self) -> None:
        self._told.put(None)

    def delete_pod(self, name: str, **_: object) -> None:
        if name not in self.held and (pod := self.pods.pop(name, None)) is not None:
            self._told.put(("DELETED", pod))


@pytest.mark.parametrize("held", [[0], [0, 2]], ids=["one", "two"])
def test_pods_that_cannot_be_removed_are_named_and_the_others_are_removed(
    monkeypatch: pytest.MonkeyPatch, held: list[int]
) -> None:
    pods = [child(index=index) for index in range(3)]
    names = [pods[index].name for index in held]
    monkeypatch.setattr(platforms, "GONE_SECONDS", 0.01)
    monkeypatch.setattr(platforms, "seconds_to_go", lambda pod, _: 0.01 if pod.metadata.name in names else 60)

    async def stop_all(api: HoldingApi) -> str:
        platform = KubernetesPlatform(api, plan(), anchor=ANCHOR)
        async with asyncio.timeout(60):
            for pod in pods:
                await platform.start(pod)
            with pytest.raises(ElasticError, match="cannot be removed") as told:
                await platform.stop_all(0)
            await platform.close()
        return str(told.value)

    api = HoldingApi(names)
    said = asyncio.run(stop_all(api))
    assert [*api.pods] == names
    assert [pod.name for pod in pods if pod.name in said] == names
