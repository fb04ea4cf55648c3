"""Whose model the parameter servers get where there is no checkpoint."""

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
        self.chosen: list[str] = []
        for name in versions:
            self.join(name)

    def join(self, name: str, era: int = 1) -> None:
        self.members.join(master_pb2.Member(role=master_pb2.ROLE_WORKER, name=name, era=era))

    async def attempt(self, *, broken: tuple[str, ...] = ()) -> Origin:
        """All offer their copy; the upload of the broken ones fails."""
        found = await self.begin()
        offers = [self.offer(name, name in broken) for name in self.versions]
        _, origin = await asyncio.gather(asyncio.gather(*offers), asyncio.wait_for(found, SECONDS))
        return origin

    async def begin(self, *, is_first: bool = True) -> asyncio.Task[Origin]:
        """The workers are asked; what comes of it."""
        self.era += 1
        found = asyncio.create_task(self.copies.use_freshest(self.era, ["ps-0"], is_first=is_first))
        await asyncio.sleep(0)
        return found

    async def offer(self, name: str, breaks: bool) -> None:
        if await self.copies.offered(name, self.versions[name], self.era):
            self.chosen.append(name)
            self.copies.uploaded(name, self.era, "the line broke" if breaks else "")


def test_the_freshest_copy_is_used() -> None:
    assert asyncio.run(World(a=3, b=7, c=5).attempt()) == Origin("copy", version=7)


def test_after_an_upload_that_failed_another_copy_is_used() -> None:
    async def scenario() -> Origin:
        world = World(a=3, b=7)
        with pytest.raises(ElasticError, match="the copy of version 7 could not be used: the line broke"):
            await world.attempt(broken=("b",))
        return await world.attempt()

    assert asyncio.run(scenario()) == Origin("copy", version=3)


def test_the_only_copy_is_tried_again_but_not_for_ever_where_another_worker_can_begin_anew() -> None:
    async def scenario() -> tuple[Origin, Origin]:
        world = World(a=3, b=-1)
        with pytest.raises(ElasticError):
            await world.attempt(broken=("a",))
        mended = await world.attempt()
        for _ in range(copies.UPLOADS):
            with pytest.raises(ElasticError):
                await world.attempt(broken=("a",))
        return mended, await world.attempt()

    assert asyncio.run(scenario()) == (Origin("copy", version=3), Origin("fresh"))


def test_a_model_begins_with_the_first_values_of_one_worker() -> None:
    """Each server would take those of whoever came there first, and some worker may hold a copy after all."""

    async def scenario() -> tuple[Origin, list[str]]:
        world = World(a=-1, b=-1)
        return await world.attempt(), world.chosen

    origin, chosen = asyncio.run(scenario())
    assert (origin, len(chosen)) == (Origin("fresh"), 1)


def test_the_model_does_not_begin_anew_while_nobody_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers are stopped, or away: there is no hurry, and they come back with their copies."""
    monkeypatch.setattr(copies, "OFFER_SECONDS", 0.01)
    monkeypatch.setattr(copies, "ONLY_OFFER_SECONDS", 0.01)

    async def scenario() -> Origin:
        world = World(a=4)
        found = await world.begin()
        await asyncio.sleep(0.1)
        await world.offer("a", breaks=False)
        return await found

    assert asyncio.run(scenario()) == Origin("copy", version=4)


def test_what_a_worker_has_still_to_say_of_an_earlier_attempt_is_no_answer_to_this_one() -> None:
    """It would bring its copy into an era that is over, and the servers would have none in this one."""

    async def scenario() -> bool:
        world = World(a=4)
        earlier = await world.begin()
        earlier.cancel()
        found = await world.begin()
        offered = asyncio.create_task(world.copies.offered("a", 4, world.era))
        is_late_offer_used = await world.copies.offered("a", 4, world.era - 1)
        await offered
        world.copies.uploaded("a", world.era - 1, "")
        await asyncio.sleep(0)
        is_begun = found.done()
        world.copies.uploaded("a", world.era, "")
        return is_late_offer_used or is_begun or await found != Origin("copy", version=4)

    assert not asyncio.run(scenario())


@pytest.mark.parametrize("comes_back", [True, False])
def test_whoever_has_a_copy_may_be_a_moment_away_when_a_newcomer_answers(
    monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    """As after a restart of the master, which has heard of nobody yet."""
    monkeypatch.setattr(copies, "BACK_SECONDS", 30 if comes_back else 0.2)

    async def scenario() -> Origin:
        world = World(new=-1)
        found = await world.begin(is_first=False)
        early = asyncio.create_task(world.offer("new", breaks=False))
        await asyncio.sleep(0.1)
        if comes_back:
            world.join("a")
            world.versions["a"] = 4
            await world.offer("a", breaks=False)
        await early
        return await found

    assert asyncio.run(scenario()) == (Origin("copy", version=4) if comes_back else Origin("fresh"))


def test_failures_of_an_earlier_loss_are_forgotten_once_a_copy_was_used() -> None:
    async def scenario() -> Origin:
        world = World(a=3, b=-1)
        for _ in range(2):
            for _ in range(copies.UPLOADS - 1):
                with pytest.raises(ElasticError):
                    await world.attempt(broken=("a",))
            origin = await world.attempt()
        return origin

    assert asyncio.run(scenario()) == Origin("copy", version=3)


def test_a_late_offer_is_waited_for_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "OFFER_SECONDS", 0.2)

    async def scenario() -> Origin:
        world = World(a=-1, b=4)
        found = await world.begin()
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
        found = await world.begin()
        await world.offer("a", breaks=False)
        return await found

    assert asyncio.run(scenario()) == Origin("copy", version=1)
