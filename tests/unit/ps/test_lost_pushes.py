"""What a worker leaves that is killed when one parameter server has its push and the next has not."""

import asyncio
import contextlib
import math
import time
from concurrent import futures

import numpy as np
import pytest
from ps_worlds import SGD, client, layout, servers

from elastic_runtime.ps import partfile
from elastic_runtime.ps.control import PSControl
from elastic_runtime.ps.shard import Refused
from elastic_runtime.rpc import ps_pb2 as wire
from elastic_runtime.rpc.ps_pb2 import Verdict

WAIT = 60.0
"""So long a server waits for a push that may still come."""


def buffers(value=0.0):
    return np.full(4, value, np.float32), np.full(2, value, np.float32)


def step(worker, version, value=1.0):
    return worker.push(*buffers(value), version=version, learning_rate=1.0).version


@contextlib.contextmanager
def half_made(*, wait_seconds=WAIT, use_async=False, **settings):
    """Version 2 is of worker 0 alone; server 0 has its push, and server 1 will never have it."""
    settings |= {"grads_to_wait": 2, "wait_seconds": wait_seconds, "use_async": use_async}
    with servers(2, **settings) as (shards, at), client(at, use_async=use_async) as lost:
        lost.initialize(layout(), *buffers(), SGD)
        lost.set_senders(1, ["worker-0"])
        assert step(lost, 0) == 1
        both = lost._servers
        lost._servers = both[:1]
        assert step(lost, 1) == 2
        lost._servers = both
        assert [shard.store.version for shard in shards] == [2, 1]
        yield shards, at


def test_replacement_of_the_lost_goes_on_with_what_each_server_has():
    with half_made() as (shards, at), client(at, "worker-1") as worker:
        worker.set_senders(2, ["worker-1"])
        began = time.monotonic()
        assert worker.initialize(layout(), *buffers(), SGD).already
        weights, state = buffers()
        assert worker.pull(weights, state) == 2
        assert (weights.tolist(), state.tolist()) == ([-2, -2, -1, -1], [2, 1])
        assert step(worker, 2) == 3
        assert worker.pull(weights, state) == 3
        assert weights.tolist() == [-3, -3, -2, -2]
        assert [shard.store.version for shard in shards] == [3, 3]
        assert time.monotonic() - began < WAIT / 2, "waited for who is known to be lost"


def test_pull_that_waits_for_a_push_of_the_lost_is_answered_when_the_master_tells_of_the_loss():
    with half_made() as (shards, at), client(at, "worker-1") as worker:
        worker.set_senders(2, ["worker-0", "worker-1"])
        with futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(worker.pull, *buffers())
            with shards[1]._changed:
                assert shards[1]._changed.wait_for(lambda: shards[1].store.deadline < math.inf, WAIT / 2)
            worker.set_senders(3, ["worker-1"])
            assert waiting.result(WAIT / 2) == 2


def test_push_that_a_living_worker_gave_up_holds_the_others_up_no_longer_than_any():
    with half_made(wait_seconds=0.2) as (_, at), client(at, "worker-1") as worker:
        worker.set_senders(2, ["worker-0", "worker-1"])
        assert worker.pull(*buffers()) == 2


def test_model_that_lacks_a_part_of_a_push_can_be_saved(tmp_path):
    async def save(at):
        master = PSControl(at, token="")
        try:
            await master.set_senders(2, [])
            return await asyncio.wait_for(master.save(0, str(tmp_path)), WAIT / 2)
        finally:
            await master.close()

    with half_made() as (_, at):
        assert asyncio.run(save(at)) == 2
    assert [partfile.read_header(path)["version"] for path in tmp_path.iterdir()] == [2, 2]


@pytest.mark.parametrize("use_async", [False, True])
@pytest.mark.parametrize("how", ["nobody trains", "time is up"])
def test_version_that_lacks_a_part_of_a_push_is_evaluated_and_saved(tmp_path, use_async, how):
    is_up = how == "time is up"
    settings = {"evaluation_steps": 2, "checkpoint_steps": 2, "wait_seconds": 0.2 if is_up else WAIT}
    with (
        half_made(use_async=use_async, **settings) as (shards, at),
        client(at, "worker-1", use_async=use_async) as worker,
    ):
        worker.set_senders(2, ["worker-1"] if is_up else [])
        weights, state = buffers()
        assert worker.pull(weights, state, snapshot=2) == 2
        assert weights.tolist() == [-2, -2, -1, -1]
        assert worker.save(2, str(tmp_path)) == 2
        assert [shard.store.version for shard in shards] == [2, 2]
        assert step(worker, 2) == 3


def test_asynchronous_worker_that_has_evaluated_meanwhile_pushes_to_a_server_that_is_behind():
    """It computed its gradient on version 2 of server 0, which the other does not have."""
    with (
        half_made(use_async=True, evaluation_steps=1) as (shards, at),
        client(at, "worker-1", use_async=True) as worker,
    ):
        assert worker.pull(*buffers()) == 2
        worker.pull(*buffers(), snapshot=1)
        assert step(worker, 2) == 3
        assert [shard.store.version for shard in shards] == [3, 2]


class Part:
    """A server that gives these versions one after the other, and writes down what it was asked."""

    def __init__(self, index, *versions):
        self.index, self.versions, self.asked = index, list(versions), []

    def pull(self, request, have_version, weights, state):
        self.asked.append((request.min_version, request.merge.version))
        version = self.versions.pop(0)
        return wire.PullReply(version=version, merge=wire.Merge(version=version, workers=["a"]))


def test_pull_asks_server_0_for_what_others_have_first_and_tells_those_behind_how_it_was_made():
    with client(["127.0.0.1:1"] * 3) as worker:
        channels = worker._servers
        worker._servers = parts = [Part(0, 4, 6), Part(1, 5, 6), Part(2, 3, 6)]
        assert worker.pull(*buffers()) == 6
        worker._servers = channels
    assert [part.asked for part in parts] == [[(0, 0), (5, 0)], [(0, 0), (6, 6)], [(0, 0), (6, 6)]]


@pytest.mark.parametrize("what", [{"snapshot": 2}, {"min_version": 2}])
def test_nobody_goes_on_to_a_version_of_an_era_that_is_not_theirs(what):
    with half_made() as ([_, behind], _):
        behind.set_senders(2, [])
        with pytest.raises(Refused) as caught:
            behind.pull(**{"era": 2, "snapshot": 0, "min_version": 0, "wait": WAIT} | what)
        assert (caught.value.verdict, behind.store.version) == (Verdict.WRONG_ERA, 1)
