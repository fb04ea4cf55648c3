"""The home of a model that one worker holds: who that is, and what becomes of the others."""

import asyncio

import pytest

from elastic_runtime.master.desk import Desk
from elastic_runtime.master.home import HeldHome, held
from elastic_runtime.master.job import TRAINING, Job
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.job import JobSpec

GRANTED, WAIT = master_pb2.LeaseReply.GRANTED, master_pb2.LeaseReply.WAIT


class World:
    """The master of a Local job, new or the next after one `before`, and workers that do as a test says."""

    def __init__(self, before: "World | None" = None):
        options = {"job_name": "j", "model_def": "m.py", "training_data": "d", "num_workers": "0"}
        self.job = Job(JobSpec.make(options | {"distribution_strategy": "Local"}, []), lambda _: None)
        self.problems, self.eras, self.connections, self.ending = [], [], {}, False
        self.tasks, self.members = Tasks(self.problems.append), Members()
        self.home = HeldHome(
            self.members,
            tasks=self.tasks,
            find_checkpoint=lambda: None,
            begin_era=self._begin,
            ending=lambda: self.ending,
        )
        self.desk = Desk(self.job, tell=self.job.tell, durable=self._at_once)
        if before is None:
            self.job.begin({TRAINING: [Source("a", 5120)]})
        else:
            self.job.restore(before.job.state())
            self.home.resume(self.job.era, self.job.origin)

    async def _begin(self, era, origin):
        self.job.begin_era(era, origin)
        self.eras.append(era)

    async def _at_once(self):
        return

    def join(self, name, incarnation=""):
        """As `Front.joined` does; the orders that it gets come later."""
        member = master_pb2.Member(
            role=master_pb2.ROLE_WORKER, name=name, incarnation=incarnation or f"process of {name}"
        )
        connection = self.connections[name] = self.members.join(member)
        self.home.joined(member)
        connection.send(master_pb2.Order(topology=self.home.topology()))

    def lose(self, name):
        """As `Course.worker_gone` does."""
        self.members.forget(name)
        self.home.lost(name)

    async def let_in(self, name):
        """Wait until this worker hears that it holds the model of the present era."""
        while True:
            order = await self.connections[name].orders.get()
            if order.topology.ready:
                assert order.topology.era == self.job.era
                return

    def is_let_in(self, name):
        """Whether it has heard so."""
        heard = []
        while not self.connections[name].orders.empty():
            heard.append(self.connections[name].orders.get_nowait())
        return any(order.topology.ready for order in heard)

    async def ask(self, name, serial=1):
        request = master_pb2.LeaseRequest(
            worker=name, incarnation=f"process of {name}", era=self.job.era, serial=serial
        )
        return (await self.desk.lease(request, lives=lambda: True)).answer


def played(course):
    async def play():
        async with asyncio.timeout(60):
            worlds = await course()
        for world in worlds:
            await world.tasks.cancel()
            assert world.problems == []

    asyncio.run(play())


def test_of_two_workers_the_first_trains_and_the_other_is_given_nothing(caplog):
    caplog.set_level("INFO")

    async def course():
        world = World()
        world.join("a")
        await world.let_in("a")
        world.join("b")
        assert not world.is_let_in("b")
        for serial in (1, 2):
            assert await world.ask("a", serial) == GRANTED
            assert await world.ask("b", serial) == WAIT
        assert world.eras == [1]
        return [world]

    played(course)
    assert "b waits: with the strategy Local one worker trains, and a does" in caplog.messages


def test_the_worker_that_waits_takes_the_place_of_the_one_that_is_lost():
    async def course():
        world = World()
        world.join("a")
        await world.let_in("a")
        world.join("b")
        world.join("c")
        world.lose("b")
        world.lose("a")
        await world.let_in("c")
        assert (await world.ask("c"), await world.ask("a")) == (GRANTED, WAIT)
        return [world]

    played(course)


def test_one_that_comes_after_the_loss_takes_its_place_and_so_does_its_own_next_process():
    async def course():
        world = World()
        world.join("a")
        await world.let_in("a")
        world.lose("a")
        world.join("b")
        await world.let_in("b")
        world.join("b", incarnation="another")
        await world.let_in("b")
        assert world.eras == [1, 2, 3]
        return [world]

    played(course)


def test_a_holder_that_was_cut_off_for_so_long_that_it_was_given_up_goes_on_with_its_model():
    async def course():
        world = World()
        world.join("a")
        await world.let_in("a")
        world.lose("a")
        world.join("a")
        assert world.is_let_in("a")
        assert await world.ask("a") == GRANTED
        assert world.eras == [1]
        return [world]

    played(course)


def test_a_holder_that_is_lost_while_its_era_begins_leaves_one_of_its_own_to_the_next():
    async def course():
        world = World()
        world.join("a")
        world.lose("a")
        world.join("b")
        await world.let_in("b")
        assert world.job.origin.holders[1] == "b"
        assert world.eras == sorted(set(world.eras)), "no era begins twice"
        assert not world.is_let_in("a")
        return [world]

    played(course)


def test_a_worker_that_was_replaced_does_not_take_the_model_from_its_replacement_after_a_restart():
    """Its pod is gone, its process is not, and it finds the next master first."""

    async def course():
        world = World()
        world.join("a")
        await world.let_in("a")
        world.lose("a")
        world.join("b")
        await world.let_in("b")
        heir = World(world)
        heir.join("a")
        heir.join("b")
        assert heir.is_let_in("b")
        assert not heir.is_let_in("a")
        assert (await heir.ask("a"), await heir.ask("b")) == (WAIT, GRANTED)
        assert heir.eras == []
        return [world, heir]

    played(course)


@pytest.mark.parametrize("is_told", [True, False])
def test_after_a_restart_a_holder_that_does_not_come_back_is_replaced(monkeypatch, is_told):
    """At once if its pod has ended, otherwise after some time."""
    monkeypatch.setattr(held, "PATIENCE_SECONDS", 600.0 if is_told else 0.05)

    async def course():
        world = World()
        world.join("a")
        await world.let_in("a")
        heir = World(world)
        heir.join("b")
        assert not heir.is_let_in("b")
        if is_told:
            heir.lose("a")
        await heir.let_in("b")
        assert await heir.ask("b") == GRANTED
        return [world, heir]

    played(course)


def test_at_the_jobs_end_nobody_takes_a_place_and_those_who_waited_leave():
    async def course():
        world = World()
        world.join("a")
        await world.let_in("a")
        world.join("b")
        world.ending = True
        world.home.dismiss_spares("the job is done")
        world.lose("a")
        heard = [world.connections["b"].orders.get_nowait().WhichOneof("order") for _ in range(2)]
        assert heard == ["topology", "drain"]
        await asyncio.sleep(0)
        assert world.eras == [1]
        return [world]

    played(course)
