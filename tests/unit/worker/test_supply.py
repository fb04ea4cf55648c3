"""What becomes of a lease whose records cannot be read."""

import queue
from types import SimpleNamespace

import pytest

from elastic_runtime.data.recordio.codec import RecordIOError
from elastic_runtime.rpc import master_pb2
from elastic_runtime.worker import supply
from elastic_runtime.worker.supply import UNREAD_PAUSES, ShardSupply
from elastic_runtime.worker.work import Broken, NoMoreWork, Work


class Told:
    def __init__(self):
        self.failed_with = []

    def failed(self, key, problem):
        self.failed_with.append((key.shard, problem))


class Master:
    """Grants shards, one after the other, so many."""

    def __init__(self, shards):
        self.left = list(range(shards))

    def lease(self, *, era, serial, wait_seconds):
        if not self.left:
            return master_pb2.LeaseReply(answer=master_pb2.LeaseReply.END)
        key = master_pb2.LeaseKey(kind=master_pb2.TRAINING, shard=self.left.pop(0))
        return master_pb2.LeaseReply(answer=master_pb2.LeaseReply.GRANTED, key=key)


def stale(_number=0, _reply=None):
    try:
        raise OSError(116, "Stale file handle")
    except OSError as error:
        raise RecordIOError("cannot be opened", where="/data/a") from error


def supplied(deliver, shards):
    """What the inbox holds when the supply has ended, and what was reported."""
    inbox, told, master = queue.SimpleQueue(), Told(), Master(shards)
    shop = ShardSupply(SimpleNamespace(lease=master.lease), inbox, told, deliver)
    shop.start(1)
    arrived = []
    while not arrived or not isinstance(arrived[-1], NoMoreWork | Broken):
        arrived.append(inbox.get(timeout=60))
        if isinstance(arrived[-1], Work):
            shop.finished_one()
    shop.stop()
    shop.join(60)
    return arrived, told.failed_with


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(supply, "UNREAD_PAUSES", tuple(0.01 for _ in UNREAD_PAUSES))


def test_one_read_that_fails_costs_its_shard_an_attempt_and_the_worker_goes_on():
    def deliver(number, reply):
        return stale() if reply.key.shard == 1 else 10

    arrived, failed = supplied(deliver, 3)
    assert [work.key.shard for work in arrived[:-1]] == [0, 2]
    assert isinstance(arrived[-1], NoMoreWork)
    assert [shard for shard, _ in failed] == [1]


def test_a_worker_that_can_read_nothing_leaves_the_shards_to_others():
    """It would take one after the other and fail them all, faster than anybody trains."""
    arrived, failed = supplied(stale, 100)
    assert [type(item) for item in arrived] == [Broken]
    assert isinstance(arrived[0].problem, RecordIOError)
    assert len(failed) == len(UNREAD_PAUSES) + 1


def test_reads_that_fail_now_and_then_do_not_add_up():
    def deliver(number, reply):
        return stale() if reply.key.shard % 2 else 10

    arrived, failed = supplied(deliver, 20)
    assert isinstance(arrived[-1], NoMoreWork)
    assert len(failed) == 10


def test_what_the_users_reader_raises_is_for_the_master_to_count():
    def deliver(number, reply):
        raise KeyError("no such column")

    arrived, failed = supplied(deliver, 20)
    assert isinstance(arrived[-1], NoMoreWork)
    assert len(failed) == 20
