"""What the home of a model on parameter servers makes of those that come, go, and come back."""

import asyncio

import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.home import Origin, ServedHome, copies, served
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.rpc import master_pb2


class Servers:
    """Two parameter servers that hold the model of era 1, and a new master that has not met them yet."""

    def __init__(self):
        self.told, self.unreachable, self.heard = [], 0, asyncio.Event()
        self.failures = []
        self.members, self.tasks = Members(), Tasks(self.failures.append)
        self.home = ServedHome(
            2,
            members=self.members,
            token="",
            tasks=self.tasks,
            find_checkpoint=lambda: None,
            begin_era=self._begin_era,
        )
        self.home.resume(1, Origin("fresh").held_by(["0", "1"]))

    async def _begin_era(self, era, origin):
        raise AssertionError("the model is where it was")

    def join(self, index, incarnation=None):
        member = master_pb2.Member(
            role=master_pb2.ROLE_PS,
            name=f"ps-{index}",
            index=index,
            incarnation=incarnation or str(index),
            state="ready",
            era=1,
        )
        connection = self.members.join(member)
        self.home.joined(member)
        return connection

    async def both_join(self):
        self.join(0)
        self.join(1)
        await asyncio.sleep(0)  # nobody trains yet: there is nothing to tell them

    def have_a_worker(self):
        """One that has no copy, and gives its first values if it is told to."""
        worker = master_pb2.Member(role=master_pb2.ROLE_WORKER, name="a")
        orders = self.members.join(worker).orders
        self.home.joined(worker)
        self.tasks.spawn(self._work(orders))

    async def _work(self, orders):
        while True:
            era = (await orders.get()).offer_copy.era
            if await self.home.copies.offered("a", -1, era):
                self.home.copies.uploaded("a", era, "")

    # What the master says to them

    async def set_senders(self, generation, workers):
        if self.unreachable:
            self.unreachable -= 1
            raise ElasticError("the connection broke")
        self.told.append(list(workers))
        self.heard.set()

    async def close(self):
        """Nothing is held open."""


def in_a_loop(scenario, monkeypatch):
    async def run():
        servers = Servers()
        monkeypatch.setattr(served, "PSControl", lambda addresses, token: servers)
        async with asyncio.timeout(60):
            await scenario(servers)
            await servers.tasks.cancel()
        assert not servers.failures

    asyncio.run(run())


def test_servers_that_come_later_are_told_who_trains(monkeypatch):
    """A worker that was lost with the last master would hold up each step for a minute."""

    async def scenario(servers):
        await servers.home.set_senders(["gone", "a"])
        await servers.home.set_senders(["a"])
        servers.join(0)
        servers.join(1)
        await servers.heard.wait()
        assert servers.told == [["a"]]

    in_a_loop(scenario, monkeypatch)


def test_a_server_whose_connection_broke_is_told_again_who_trains(monkeypatch):
    async def scenario(servers):
        await servers.both_join()
        await servers.home.set_senders(["a"])
        servers.heard.clear()
        servers.join(1)
        await servers.heard.wait()
        assert servers.told == [["a"], ["a"]]

    in_a_loop(scenario, monkeypatch)


@pytest.mark.parametrize("failures", [1, 3])
def test_a_word_that_did_not_arrive_is_said_again(monkeypatch, failures):
    monkeypatch.setattr(served, "AGAIN_SECONDS", 0.01)

    async def scenario(servers):
        await servers.both_join()
        servers.unreachable = failures
        await servers.home.set_senders(["a"])
        assert servers.told == [["a"]]

    in_a_loop(scenario, monkeypatch)


def test_a_server_that_is_replaced_before_any_worker_has_come_makes_another_attempt(monkeypatch):
    """Else the first worker would be told of an address where nobody is any more."""
    monkeypatch.setattr(copies, "BACK_SECONDS", 0.0)

    async def scenario(servers):
        begun = asyncio.get_running_loop().create_future()

        async def begin_era(_, origin):
            begun.set_result(origin)

        servers.home._begin = begin_era
        servers.join(0)
        servers.join(1, "new")
        await asyncio.sleep(0.05)
        servers.join(1, "newer")
        servers.have_a_worker()
        assert await begun == Origin("fresh").held_by(["0", "newer"])

    in_a_loop(scenario, monkeypatch)


def test_a_server_that_is_lost_while_a_checkpoint_is_looked_for_makes_another_attempt(monkeypatch):
    monkeypatch.setattr(copies, "BACK_SECONDS", 0.0)

    async def scenario(servers):
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        begun = loop.create_future()

        def find():
            if not lost.is_set():
                asyncio.run_coroutine_threadsafe(lose(), loop).result(30)

        async def lose():
            servers.home.lost("ps-1")
            lost.set()

        async def begin_era(_, origin):
            begun.set_result(origin)

        servers.home._find, servers.home._begin = find, begin_era
        servers.join(0)
        servers.join(1, "new")
        await lost.wait()
        await asyncio.sleep(0.05)
        servers.join(1, "newer")
        servers.have_a_worker()
        assert await begun == Origin("fresh").held_by(["0", "newer"])

    in_a_loop(scenario, monkeypatch)
