"""What the worker that holds the model is asked, and which answer is to which question."""

import asyncio

import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.home.questions import Questions
from elastic_runtime.master.members import Members
from elastic_runtime.rpc import master_pb2


class Worker:
    """It hears what it is asked, and answers when the test says so."""

    def __init__(self):
        members = Members()
        self._orders = members.join(master_pb2.Member(role=master_pb2.ROLE_WORKER, name="w")).orders
        self.questions = Questions(members)

    async def heard(self):
        return await self._orders.get()


def in_a_loop(scenario):
    async def run():
        async with asyncio.timeout(60):
            await scenario(Worker())

    asyncio.run(run())


def test_of_two_that_want_a_snapshot_written_each_has_the_answer_to_its_own_question():
    async def scenario(worker):
        saves = [asyncio.create_task(worker.questions.save("w", version, "d")) for version in (7, 10)]
        assert (await worker.heard()).save.version == 7
        worker.questions.saved(7, "")
        assert (await worker.heard()).save.version == 10
        worker.questions.saved(10, "the disk is full")
        assert await saves[0] == 7
        with pytest.raises(ElasticError, match="the disk is full"):
            await saves[1]

    in_a_loop(scenario)


def test_of_two_that_want_a_snapshot_taken_each_has_one_of_its_own():
    """A worker that is asked twice between two steps of AllReduce takes one."""

    async def scenario(worker):
        first, second = (asyncio.create_task(worker.questions.snapshot("w")) for _ in range(2))
        await worker.heard()
        worker.questions.reached(7)
        assert await first == 7
        await worker.heard()
        worker.questions.reached(8)
        assert await second == 8

    in_a_loop(scenario)


def test_a_late_answer_is_not_taken_for_that_to_the_next_question(monkeypatch):
    async def scenario(worker):
        monkeypatch.setattr("elastic_runtime.master.home.questions.ANSWER_SECONDS", 0.01)
        with pytest.raises(ElasticError, match="did not answer"):
            await worker.questions.save("w", 7, "d")
        monkeypatch.undo()
        save = asyncio.create_task(worker.questions.save("w", 10, "d"))
        assert [(await worker.heard()).save.version for _ in range(2)] == [7, 10]
        worker.questions.saved(7, "it is too late")
        worker.questions.saved(10, "")
        assert await save == 10

    in_a_loop(scenario)


def test_whoever_waits_for_a_worker_that_is_lost_hears_of_it_and_so_does_the_next():
    async def scenario(worker):
        saves = [asyncio.create_task(worker.questions.save("w", version, "d")) for version in (7, 10)]
        await worker.heard()
        worker.questions.lost("w")
        with pytest.raises(ElasticError, match="is gone"):
            await saves[0]
        assert (await worker.heard()).save.version == 10, "it is still connected"
        worker.questions.lost("w")
        with pytest.raises(ElasticError, match="is gone"):
            await saves[1]

    in_a_loop(scenario)
