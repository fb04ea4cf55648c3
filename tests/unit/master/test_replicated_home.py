"""What the home of a model does with the worlds that the rendezvous decides on."""

import asyncio

from elastic_runtime.master.home import Origin, ReplicatedHome, WorldTerms
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.rpc import master_pb2


async def nothing(*_):
    return None


def test_nobody_hears_of_a_world_before_its_number_is_durable():
    """A master killed before that leaves a next one that gives the number away again: to another world."""

    async def found():
        asked, durable, told = asyncio.Event(), asyncio.Event(), []

        async def began(world):
            asked.set()
            await durable.wait()

        members, tasks = Members(), Tasks(told.append)
        terms = WorldTerms(
            wanted=1,
            smallest=1,
            host="127.0.0.1",
            told=lambda formed, before: told.append(formed.world),
            failed=told.append,
            began=began,
            newest=lambda: 0,
            settled=lambda: 0,
        )
        home = ReplicatedHome(
            members, terms, tasks=tasks, find_checkpoint=lambda: Origin("fresh"), begin_era=nothing
        )
        member = master_pb2.Member(role=master_pb2.ROLE_WORKER, name="w", incarnation="1")
        members.join(member)
        home.joined(member)
        request = master_pb2.WorldRequest(member="w", wait_seconds=30)
        place = asyncio.ensure_future(home.world(request))
        async with asyncio.timeout(60):
            await asked.wait()
            early = await home.world(master_pb2.WorldRequest(member="w", wait_seconds=0))
            assert not early.world
            assert not told
            assert not place.done()
            durable.set()
            reply = await place
        assert (reply.world, told) == (1, [1])
        await home.close()
        await tasks.cancel()

    asyncio.run(found())
