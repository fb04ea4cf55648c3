"""A whole master whose journal, pods and workers are the test's: how it goes on, and how it ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.master import ledger
from elastic_runtime.master.app import Master
from elastic_runtime.master.commands import Place
from elastic_runtime.master.job import TRAINING
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.surroundings import Surroundings
from elastic_runtime.observe.summary import FILE_NAME
from elastic_runtime.platform.no_room import NoRoom
from elastic_runtime.platform.overtaken import Overtaken
from elastic_runtime.platform.pods import EXIT_DRAINED, Watches
from elastic_runtime.rpc import channel, master_pb2, master_pb2_grpc
from elastic_runtime.spec.job import JobSpec

SECONDS = 60.0
"""For all that a test waits for."""


class Store:
    """A journal that can be told to refuse."""

    where, pause, room = "here", 0.0, 1 << 30

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.rows: list = []

    def load(self) -> list:
        return []

    def append(self, rows) -> None:
        if self.problem:
            raise self.problem
        self.rows += rows

    replace = append

    def close(self) -> None:
        pass


class NoPods:
    """A platform without any; how often all of them were ended."""

    def __init__(self) -> None:
        self.watches, self.ended = Watches(), 0
        self.problem: Exception | None = None

    async def watch(self):
        return self.watches.begin([])

    async def stop_all(self, grace: float) -> None:
        self.ended += 1
        if self.problem:
            raise self.problem

    async def close(self) -> None:
        self.watches.tell(None)


class World:
    """A job whose shards have 10 records, for a worker that is started by hand."""

    def __init__(self, folder: Path, *, in_cluster: bool = False, records: int = 200) -> None:
        options = {"job_name": "j", "model_def": "m.py", "training_data": "d", "run_dir": str(folder)}
        options |= {"distribution_strategy": "Local", "num_workers": "0", "records_per_task": "10"}
        self.folder, self.store, self.pods = folder, Store(), NoPods()
        self.forgotten: list[bool] = []
        surroundings = Surroundings(
            platform=self.pods,
            store=self.store,
            token="",
            listen="127.0.0.1",
            host="127.0.0.1",
            place=Place(address="", python="python"),
            successor_on_signal=in_cluster,
            forget=self._forget,
        )
        self.master = Master(JobSpec.make(options, []), surroundings)
        self.run = asyncio.create_task(self.master.run(lambda: {TRAINING: [Source("a", records)]}))

    async def _forget(self, succeeded: bool) -> None:
        self.forgotten.append(succeeded)

    async def address(self) -> str:
        """Of the master, once it serves: it writes it down."""
        file = self.folder / "master.addr"
        while not file.exists():
            if self.run.done():
                await self.run
            await asyncio.sleep(0.01)  # a file tells nobody of itself
        return file.read_text()

    @property
    def summary(self) -> dict:
        return json.loads((self.folder / FILE_NAME).read_text())


class Worker:
    """One that holds its bond with the master."""

    def __init__(self, stub: master_pb2_grpc.MasterStub, name: str) -> None:
        self.stub, self.name, self.serial, self.era = stub, name, 0, 0
        member = master_pb2.Member(role=master_pb2.ROLE_WORKER, name=name, incarnation=name)
        self.bond = stub.Join(member)

    async def until_ready(self) -> Worker:
        async for order in self.bond:
            if order.topology.ready:
                self.era = order.topology.era
                return self
        raise AssertionError("the master has ended the bond")

    async def lease(self, *, seconds: float = 0.0) -> master_pb2.LeaseReply:
        self.serial += 1
        return await self.stub.Lease(
            master_pb2.LeaseRequest(
                worker=self.name,
                incarnation=self.name,
                era=self.era,
                serial=self.serial,
                wait_seconds=seconds,
            )
        )

    async def finish(self, lease: master_pb2.LeaseReply) -> master_pb2.ReportReply:
        finished = master_pb2.Finished(version=self.serial)
        return await self.stub.Report(
            master_pb2.ReportRequest(worker=self.name, key=lease.key, finished=finished)
        )

    async def work(self) -> None:
        """Until there is none."""
        while (lease := await self.lease(seconds=SECONDS)).answer != master_pb2.LeaseReply.END:
            assert (await self.finish(lease)).accepted
        await self.stub.Leave(
            master_pb2.LeaveRequest(member=self.name, incarnation=self.name, reason="completed")
        )
        self.bond.cancel()


@asynccontextmanager
async def at_work(world: World, name: str = "w") -> AsyncIterator[Worker]:
    """A worker that the job's model is in."""
    async with channel.connect_aio(await world.address(), token="") as line:
        yield await Worker(master_pb2_grpc.MasterStub(line), name).until_ready()


def played(course) -> None:
    async def play() -> None:
        async with asyncio.timeout(SECONDS):
            await course()

    asyncio.run(play())


def test_a_job_whose_journal_never_has_room_again_fails_and_says_what_to_do(tmp_path):
    async def course():
        world = World(tmp_path)
        async with at_work(world) as worker:
            world.store.problem = NoRoom("it does not fit", where="here", remedy="put it on a volume")
            with pytest.raises(grpc.RpcError):
                await worker.lease()
            assert await world.run == 1
        assert world.summary["status"] == "failed"
        assert world.summary["error"] == "here: it does not fit (put it on a volume)"

    played(course)


def test_why_the_journal_cannot_be_written_is_said_once_and_once_more_when_it_happens_again(tmp_path, caplog):
    async def course():
        world = World(tmp_path)
        async with at_work(world) as worker:
            for _ in range(2):
                world.store.problem = ElasticError("the disk is full")
                for _ in range(3):
                    with pytest.raises(grpc.RpcError, match="the disk is full"):
                        await worker.lease()
                world.store.problem = None
                assert (await worker.lease()).answer == master_pb2.LeaseReply.GRANTED
            world.master.stop("that was it")
            worker.bond.cancel()
            await world.run

    with caplog.at_level(logging.WARNING, logger="elastic_runtime.master.app"):
        played(course)
    assert [record.getMessage() for record in caplog.records] == [
        "work waits, because what is done cannot be put on record: the disk is full"
    ] * 2


OTHER = Overtaken("another master has taken over: of another run", where="here")


@pytest.mark.parametrize("what", ["asks for work", "finishes the last of it", "is told to end"])
def test_a_master_whose_job_goes_on_with_another_touches_nothing_of_it_and_says_so(tmp_path, what):
    """Whether it learns of that in the midst of the work, at its end, or only as it goes."""

    async def course():
        world = World(tmp_path, in_cluster=True, records=10 if what.startswith("finishes") else 200)
        async with at_work(world) as worker:
            lease = await worker.lease()
            world.store.problem = OTHER
            if what == "is told to end":
                world.master._course.tell(TRAINING, ledger.Ask("other", 0.0))  # not durable yet
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                with pytest.raises(grpc.RpcError):
                    await (worker.finish(lease) if what.startswith("finishes") else worker.lease())
            with pytest.raises(Overtaken, match="of another run") as told:
                await world.run
        assert (world.pods.ended, world.forgotten, told.value.exit_code) == (0, [], EXIT_DRAINED)

    played(course)


def test_a_master_that_is_told_to_end_leaves_its_pods_to_the_next(tmp_path):
    async def course():
        world = World(tmp_path, in_cluster=True)
        async with at_work(world):
            os.kill(os.getpid(), signal.SIGTERM)
            assert await world.run == EXIT_DRAINED
        assert (world.pods.ended, world.forgotten) == (0, [])

    played(course)


def test_a_job_that_is_done_ends_its_pods_and_is_forgotten(tmp_path):
    async def course():
        world = World(tmp_path)
        async with at_work(world) as worker:
            await worker.work()
            assert await world.run == 0
        assert (world.pods.ended, world.forgotten) == (1, [True])
        assert world.summary["status"] == "succeeded"

    played(course)


def test_a_worker_that_waits_in_a_local_job_holds_up_nothing_at_its_end(tmp_path):
    async def course():
        world = World(tmp_path)
        async with at_work(world) as worker:
            spare = Worker(worker.stub, "spare")
            orders = aiter(spare.bond)
            assert not (await anext(orders)).topology.ready
            work = asyncio.create_task(worker.work())
            while not (await anext(orders)).HasField("drain"):
                pass
            spare.bond.cancel()
            await work
            assert await world.run == 0
        assert world.summary["records_done"] == 200

    played(course)


def test_a_pod_that_cannot_be_removed_is_named_and_the_job_has_succeeded_all_the_same(tmp_path, caplog):
    async def course():
        world = World(tmp_path)
        world.pods.problem = ElasticError("the pod cannot be removed", where="elasticdl-j-worker-0")
        async with at_work(world) as worker:
            await worker.work()
            assert await world.run == 0
        assert world.summary["status"] == "succeeded"
        assert world.forgotten == [True]

    played(course)
    assert "left behind: elasticdl-j-worker-0: the pod cannot be removed" in caplog.messages
