"""Whose copy of the model is used when a part of it was lost without a checkpoint."""

import asyncio

import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.home import copies
from elastic_runtime.master.home.base import Origin
from elastic_runtime.master.home.copies import Copies
from elastic_runtime.master.members import Members
from elastic_runtime.rpc import master_pb2

SECONDS = 60


class World:
    """Workers that have trained, and hold copies of these versions."""

    def __init__(self, **versions: int) -> None:
        self.members = Members()
        self.copies = Copies(self.members)
        self.versions = versions
        self.era = 1
        for name in versions:
            self.members.join(master_pb2.Member(role=master_pb2.ROLE_WORKER, name=name, era=1))

    async def attempt(self, *, broken: tuple[str, ...] = ()) -> Origin:
        """All offer their copy; the upload of the broken ones fails."""
        self.era += 1
        found = asyncio.create_task(self.copies.use_freshest(self.era, ["ps-0"]))
        await asyncio.sleep(0)
        offers = [self.offer(name, name in broken) for name in self.versions]
        _, origin = await asyncio.gather(asyncio.gather(*offers), asyncio.wait_for(found, SECONDS))
        return origin

    async def offer(self, name: str, breaks: bool) -> None:
        if await self.copies.offered(name, self.versions[name]):
            self.copies.uploaded("the line broke" if breaks else "")


def test_the_freshest_copy_is_used() -> None:
    assert asyncio.run(World(a=3, b=7, c=5).attempt()) == Origin("copy", version=7)


def test_after_an_upload_that_failed_another_copy_is_used() -> None:
    async def scenario() -> Origin:
        world = World(a=3, b=7)
        with pytest.raises(ElasticError, match="the copy of version 7 could not be used: the line broke"):
            await world.attempt(broken=("b",))
        return await world.attempt()

    assert asyncio.run(scenario()) == Origin("copy", version=3)


def test_the_only_copy_is_tried_again_but_not_for_ever() -> None:
    async def scenario() -> tuple[Origin, Origin]:
        world = World(a=3)
        with pytest.raises(ElasticError):
            await world.attempt(broken=("a",))
        mended = await world.attempt()
        for _ in range(copies.UPLOADS - 1):
            with pytest.raises(ElasticError):
                await world.attempt(broken=("a",))
        return mended, await world.attempt()

    assert asyncio.run(scenario()) == (Origin("copy", version=3), Origin("fresh"))


def test_a_late_offer_is_waited_for_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "OFFER_SECONDS", 0.2)

    async def scenario() -> Origin:
        world = World(a=-1, b=4)
        found = asyncio.create_task(world.copies.use_freshest(2, ["ps-0"]))
        await asyncio.sleep(0)
        early = asyncio.create_task(world.offer("a", breaks=False))
        await asyncio.sleep(0.3)  # so long another one is waited for
        await world.offer("b", breaks=False)
        await early
        return await found

    assert asyncio.run(scenario()) == Origin("copy", version=4)


def test_a_late_offer_is_not_waited_for_where_there_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "OFFER_SECONDS", 0.2)

    async def scenario() -> Origin:
        world = World(a=1, b=4)
        found = asyncio.create_task(world.copies.use_freshest(2, ["ps-0"]))
        await asyncio.sleep(0)
        await world.offer("a", breaks=False)
        return await found

    assert asyncio.run(scenario()) == Origin("copy", version=1)
