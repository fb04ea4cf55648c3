"""What the home of a model does with the worlds that the rendezvous decides on."""

import asyncio

import pytest

from elastic_runtime.master.home import Origin, ReplicatedHome, WorldTerms
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.rpc import master_pb2


class Job:
    """One that wants a single worker: what it is told, and when a world's number is durable."""

    def __init__(self):
        self.told, self.eras, self.failures = [], [], []
        self.began, self.durable = asyncio.Event(), asyncio.Event()
        self.durable.set()
        self.ending, self.members, self.tasks = False, Members(), Tasks(self.failures.append)
        terms = WorldTerms(
            wanted=1,
            smallest=1,
            host="127.0.0.1",
            told=lambda formed, before: self.told.append(formed.world),
            failed=self.failures.append,
            began=self._began,
            newest=lambda: 0,
            settled=lambda: 0,
            ending=lambda: self.ending,
        )
        self.home = ReplicatedHome(
            self.members,
            terms,
            tasks=self.tasks,
            find_checkpoint=lambda: Origin("fresh"),
            begin_era=self._begin_era,
        )

    async def _began(self, world):
        self.began.set()
        await self.durable.wait()

    async def _begin_era(self, era, origin):
        self.eras.append(era)

    def join(self, name):
        member = master_pb2.Member(role=master_pb2.ROLE_WORKER, name=name, incarnation=name)
        self.members.join(member)
        self.home.joined(member)

    async def place(self, name, seconds):
        return await self.home.world(master_pb2.WorldRequest(member=name, wait_seconds=seconds))

    async def close(self):
        await self.home.close()
        await self.tasks.cancel()
        assert not self.failures


def played(course):
    """Run a course of events on a job, in a minute at most."""

    async def play():
        job = Job()
        async with asyncio.timeout(60):
            await course(job)
            await job.close()

    asyncio.run(play())


def test_nobody_hears_of_a_world_before_its_number_is_durable():
    """A master killed before that leaves a next one that gives the number away again: to another world."""

    async def course(job):
        job.durable.clear()
        job.join("w")
        place = asyncio.ensure_future(job.place("w", 30))
        await job.began.wait()
        assert not (await job.place("w", 0)).world
        assert not job.told
        assert not place.done()
        job.durable.set()
        assert ((await place).world, job.told) == (1, [1])

    played(course)


@pytest.mark.parametrize("ending", [False, True])
def test_one_that_comes_when_all_others_have_left_begins_the_model_anew_unless_the_job_is_ending(ending):
    """A replacement may come as late as that; what was trained is not taken back for it."""

    async def course(job):
        job.join("w")
        assert (await job.place("w", 30)).world == 1
        job.join("late")
        job.ending = ending
        late = asyncio.ensure_future(job.place("late", 3 if ending else 30))
        await asyncio.sleep(0)  # it has asked, and is still waiting for the other
        job.home.away("w")
        job.home.lost("w")
        assert (await late).world == (0 if ending else 2)
        assert job.eras == ([1] if ending else [1, 2])

    played(course)
