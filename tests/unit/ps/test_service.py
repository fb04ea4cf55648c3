"""Workers and parameter servers over real gRPC on loopback."""

import asyncio
import threading
from concurrent import futures

import grpc
import numpy as np
import pytest
from ps_worlds import SGD, client, layout, servers

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps import checkpoint
from elastic_runtime.ps.client import PSRefused, PSUnavailable, Reason
from elastic_runtime.ps.control import PSControl
from elastic_runtime.rpc import channel, ps_pb2

SIZE = 700_001  # several chunks, and no multiple of anything
LAYOUT = layout(SIZE, 3)


def buffers(value=0.0):
    return np.full(SIZE, value, np.float32), np.full(3, value, np.float32)


def begin(worker, optimizer=SGD):
    weights, state = np.arange(SIZE, dtype=np.float32), np.zeros(3, np.float32)
    return worker.initialize(LAYOUT, weights, state, optimizer)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("use_async", [False, True])
def test_model_comes_back_as_it_was_brought_and_learns(count, use_async):
    with servers(count, use_async=use_async) as (_, at), client(at, use_async=use_async) as worker:
        assert not begin(worker).already
        weights, state = buffers(9.0)
        assert worker.pull(weights, state) == 0
        assert (weights == np.arange(SIZE)).all()
        assert not state.any()
        result = worker.push(*buffers(2.0), version=0, learning_rate=0.5)
        assert (result.accepted, result.version) == (True, 1)
        assert worker.pull(weights, state, have_version=0, min_version=1) == 1
        assert (weights == np.arange(SIZE, dtype=np.float32) - 1).all()
        assert state.tolist() == [2.0] * 3


def test_nothing_travels_when_nothing_changed():
    with servers(2) as (_, at), client(at) as worker:
        begin(worker)
        weights, state = buffers()
        version = worker.pull(weights, state)
        weights[:] = -1
        assert worker.pull(weights, state, have_version=version) == version
        assert (weights == -1).all()


def test_first_model_wins_and_a_different_one_is_refused():
    with servers() as (_, at), client(at) as first, client(at, "worker-1") as second:
        begin(first)
        assert begin(second).already
        with pytest.raises(PSRefused, match=r"momentum=0.0.*not SGD\(momentum=0.9") as caught:
            begin(second, {"name": "SGD", "momentum": 0.9})
        assert caught.value.reason is Reason.MISFIT
        with pytest.raises(PSRefused, match="other variables"):
            second.initialize(layout(5), np.zeros(5, np.float32), np.zeros(2, np.float32), SGD)
        with pytest.raises(PSRefused, match="no optimizer 'Ftrl'"):
            begin(second, {"name": "Ftrl"})


def test_server_without_a_model_says_so():
    with servers() as (_, at), client(at) as worker:
        with pytest.raises(PSRefused) as caught:
            worker.pull(*buffers())
        assert caught.value.reason is Reason.NOT_INITIALISED
        assert worker.push(*buffers(), version=0, learning_rate=1).reason is Reason.NOT_INITIALISED


def test_refusals_name_their_reason_and_apply_nothing():
    with servers(2) as (_, at), client(at) as worker, client(at, "worker-1", era=2) as later:
        begin(worker)
        assert worker.push(*buffers(1.0), version=0, learning_rate=1).accepted
        assert worker.push(*buffers(1.0), version=0, learning_rate=1).reason is Reason.STALE
        assert worker.push(*buffers(np.inf), version=1, learning_rate=1).reason is Reason.NONFINITE
        assert later.push(*buffers(1.0), version=1, learning_rate=1).reason is Reason.ERA
        small = np.zeros(5, np.float32)
        assert worker.push(small, small, version=1, learning_rate=1).reason is Reason.MISFIT
        status = worker.status()
        assert [(one.version, one.applied) for one in status] == [(1, 1), (1, 1)]
        assert (status[0].stale, status[0].nonfinite) == (1, 1)


@pytest.mark.parametrize("count", [1, 2])
def test_synchronous_workers_wait_for_each_other(count):
    with servers(count, grads_to_wait=2) as (_, at), client(at) as one, client(at, "worker-1") as two:
        begin(one)
        one.set_senders(1, ["worker-0", "worker-1"])
        with futures.ThreadPoolExecutor() as pool:
            first = pool.submit(one.push, *buffers(1.0), version=0, learning_rate=1.0)
            second = pool.submit(two.push, *buffers(3.0), version=0, learning_rate=1.0)
            assert first.result(60) == second.result(60)
        weights, state = buffers()
        assert one.pull(weights, state) == 1
        assert (weights == np.arange(SIZE, dtype=np.float32) - 2).all()


@pytest.mark.parametrize("count", [1, 2])
def test_two_workers_lose_no_update_and_pull_nothing_torn(count):
    """ps_anchor.md 6.3, 6.4: the old server lost 8.5 % of updates and tore 10 % of pulls."""
    pushes = 150

    def train(worker):
        weights, state = buffers()
        for _ in range(pushes):
            version = worker.pull(weights, state)
            for start in (0, SIZE // 2) if count == 2 else (0,):
                end = SIZE if count == 1 else start + SIZE // 2
                assert len(np.unique(weights[start:end])) == 1, "torn"
            assert worker.push(*buffers(-1.0), version=version, learning_rate=1.0).accepted

    with (
        servers(count, use_async=True) as (_, at),
        client(at, use_async=True) as one,
        client(at, "worker-1", use_async=True) as two,
        futures.ThreadPoolExecutor() as pool,
    ):
        one.initialize(LAYOUT, *buffers(), SGD)
        for done in [pool.submit(train, worker) for worker in (one, two)]:
            done.result(280)
        weights, state = buffers()
        assert one.pull(weights, state) == 2 * pushes
        assert (weights == 2 * pushes).all()
        assert (state == -2 * pushes).all()


def test_pull_waits_for_a_version_but_not_for_ever():
    with servers() as (_, at), client(at) as worker, client(at, "worker-1") as other:
        begin(worker)
        with pytest.raises(PSRefused, match="version 1 did not come") as caught:
            worker.pull(*buffers(), min_version=1, wait=0.05)
        assert caught.value.reason is Reason.TIMED_OUT
        with futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(worker.pull, *buffers(), min_version=1)
            assert other.push(*buffers(), version=0, learning_rate=1.0).accepted
            assert waiting.result(60) == 1


def test_snapshot_stays_while_training_goes_on_and_server_0_reports_it():
    reported = []
    with servers(2, evaluation_steps=2, on_snapshot=reported.append) as (_, at), client(at) as worker:
        worker.initialize(LAYOUT, *buffers(), SGD)
        for version in range(3):
            worker.push(*buffers(1.0), version=version, learning_rate=1.0)
        weights, state = buffers()
        assert worker.pull(weights, state, snapshot=2) == 2
        assert (weights == -2).all()
        assert reported == [2]
        worker.drop_snapshot(2)
        with pytest.raises(PSRefused) as caught:
            worker.pull(weights, state, snapshot=2)
        assert caught.value.reason is Reason.NO_SNAPSHOT
        assert worker.snapshot() == 3


@pytest.mark.parametrize(("writers", "readers"), [(1, 2), (2, 1), (2, 3)])
def test_checkpoint_is_restored_by_any_number_of_servers(tmp_path, writers, readers):
    adam = {"name": "Adam"}
    growing, final = tmp_path / ".version-2.new", tmp_path / "version-2"
    growing.mkdir()
    with servers(writers, checkpoint_steps=2) as (_, at), client(at) as worker:
        begin(worker, adam)
        for version in range(2):
            worker.push(*buffers(1.0), version=version, learning_rate=0.1)
        assert worker.save(2, str(growing)) == 2
        worker.push(*buffers(1.0), version=2, learning_rate=0.1)
        wanted, wanted_state = buffers()
        worker.pull(wanted, wanted_state)
    checkpoint.finish(growing, final, 2, {})
    with servers(readers) as (_, at), client(at) as worker:
        assert worker.restore(str(final), era=5) == 2
        assert begin(worker, adam).already
        assert worker.push(*buffers(1.0), version=2, learning_rate=0.1).version == 3
        weights, state = buffers()
        assert worker.pull(weights, state) == 3
        np.testing.assert_array_equal(weights, wanted)  # so slots and step are right too
        np.testing.assert_array_equal(state, wanted_state)


def test_a_checkpoint_of_another_model_is_named_with_the_option_it_came_by(tmp_path):
    growing, final = tmp_path / ".version-1.new", tmp_path / "version-1"
    growing.mkdir()
    with servers() as (_, at), client(at) as worker:
        begin(worker)
        worker.push(*buffers(), version=0, learning_rate=1.0)
        worker.save(0, str(growing))
    checkpoint.finish(growing, final, 1, {})
    with servers() as (_, at), client(at) as worker:
        worker.restore(str(final), era=1)
        with pytest.raises(PSRefused, match=r"version-1 and has other variables: .*checkpoint_dir_for_init"):
            worker.initialize(layout(5), np.zeros(5, np.float32), np.zeros(2, np.float32), SGD)


def test_going_back_to_a_checkpoint_voids_what_belongs_to_the_era_before(tmp_path):
    growing, final = tmp_path / ".version-1.new", tmp_path / "version-1"
    growing.mkdir()
    with servers(grads_to_wait=2) as (shards, at), client(at) as worker, client(at, "worker-1") as other:
        begin(worker)
        worker.push(*buffers(), version=0, learning_rate=1.0)
        worker.save(0, str(growing))
        checkpoint.finish(growing, final, 1, {})
        worker.set_senders(1, ["worker-0", "worker-1"])
        with futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(other.push, *buffers(), version=1, learning_rate=1.0)
            with shards[0]._changed:
                assert shards[0]._changed.wait_for(lambda: shards[0].store.waiting, 60)
            assert worker.restore(str(final), era=2) == 1
            assert waiting.result(60).reason is Reason.ERA
        assert other.push(*buffers(), version=1, learning_rate=1.0).reason is Reason.ERA


def test_checkpoint_that_cannot_be_written_leaves_nothing_and_training_goes_on(tmp_path):
    with servers() as (_, at), client(at) as worker:
        begin(worker)
        with pytest.raises(PSRefused, match="No such file") as caught:
            worker.save(0, str(tmp_path / "missing"))
        assert caught.value.reason is Reason.FAILED
        full = tmp_path / "full"
        full.mkdir()
        (full / ".variables-0-of-1.ckpt.part").symlink_to("/dev/full")
        with pytest.raises(PSRefused, match="No space left"):
            worker.save(0, str(full))
        assert not list(full.iterdir())
        assert worker.push(*buffers(), version=0, learning_rate=1.0).accepted


def test_waiting_push_is_answered_when_the_server_ends():
    with servers(grads_to_wait=2) as (shards, at), client(at) as worker:
        begin(worker)
        worker.set_senders(1, ["worker-0", "worker-1"])
        with futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(worker.push, *buffers(), version=0, learning_rate=1.0)
            with shards[0]._changed:
                assert shards[0]._changed.wait_for(lambda: shards[0].store.waiting, 60)
            shards[0].end()
            assert waiting.result(60).reason is Reason.ENDING


def test_missing_server_is_unavailable_and_the_push_can_be_repeated():
    with servers(2, use_async=True) as (_, at), client(at, use_async=True) as worker:
        begin(worker)
        sent = {"version": 0, "learning_rate": 1.0}
        second = worker._servers[1]
        there, second._push = second._push, _unreachable
        with pytest.raises(PSUnavailable, match="parameter server 1"):
            worker.push(*buffers(1.0), **sent)
        second._push = there
        assert worker.push(*buffers(1.0), **sent, retry=True).accepted
        weights, state = buffers()
        worker.pull(weights, state)
        assert (weights == np.arange(SIZE, dtype=np.float32) - 1).all()
        assert state[0] == 1


def _unreachable(*_, **__):
    with channel.connect("127.0.0.1:1", token="") as link:
        link.unary_unary("/x/y")(b"", timeout=5)


def test_wrong_token_is_refused_with_the_remedy():
    with (
        servers(token="right") as (_, at),
        client(at, token="wrong") as worker,
        pytest.raises(PSRefused, match="need its token"),
    ):
        begin(worker)


GARBAGE = [
    [],
    [b""],
    [b"\xff\xff garbage"],
    [ps_pb2.PushRequest(era=1, worker="w").SerializeToString()],
    [ps_pb2.PushRequest(era=1, worker="w").SerializeToString(), b"abc"],
    [ps_pb2.PushRequest(era=1, worker="w").SerializeToString(), bytes(16), bytes(12), bytes(12)],
    [ps_pb2.PushRequest(era=1, worker="w").SerializeToString(), bytes(1 << 20)],
    [ps_pb2.PushRequest(era=1, worker="w", learning_rate=-1).SerializeToString(), bytes(16), bytes(8)],
]


@pytest.mark.parametrize("messages", GARBAGE)
@pytest.mark.parametrize("method", ["Push", "Initialize"])
def test_malformed_calls_are_refused_and_change_nothing(messages, method):
    with servers() as (shards, at), client(at) as worker, channel.connect(at[0], token="") as link:
        worker.initialize(layout(), np.zeros(4, np.float32), np.zeros(2, np.float32), SGD)
        reply = link.stream_unary(f"/elasticdl.v1.ParameterData/{method}")(iter(messages), timeout=60)
        kind = ps_pb2.PushReply if method == "Push" else ps_pb2.InitializeReply
        answer = kind.FromString(reply)
        assert answer.verdict not in (ps_pb2.ACCEPTED, ps_pb2.VERDICT_UNSPECIFIED)
        assert answer.reason
        assert (shards[0].store.version, shards[0].store.waiting) == (0, 0)
        assert worker.push(
            np.zeros(4, np.float32), np.zeros(2, np.float32), version=0, learning_rate=1
        ).accepted


def test_connection_lost_in_the_middle_of_a_push_applies_nothing():
    with servers(use_async=True) as (shards, at), client(at) as worker:
        begin(worker)
        half_sent, hold = threading.Event(), threading.Event()

        def messages():
            yield ps_pb2.PushRequest(era=1, worker="w").SerializeToString()
            yield bytes(1 << 20)
            half_sent.set()
            hold.wait(60)

        with channel.connect(at[0], token="") as link:
            call = link.stream_unary("/elasticdl.v1.ParameterData/Push").future(messages())
            assert half_sent.wait(60)
        hold.set()
        with pytest.raises((grpc.RpcError, grpc.FutureCancelledError)):
            call.result(60)
        weights, state = buffers()
        assert worker.pull(weights, state) == 0
        assert (weights == np.arange(SIZE)).all()
        assert shards[0].store.waiting == 0


def test_master_controls_all_servers_at_once(tmp_path):
    async def control(at):
        master = PSControl(at, token="")
        try:
            await master.set_senders(1, ["worker-0"])
            assert await master.snapshot() == 1
            assert [list(one.snapshots) for one in await master.status()] == [[1], [1]]
            await master.drop_snapshot(1)
            assert await master.save(0, str(tmp_path)) == 1
            assert sorted(path.name for path in tmp_path.iterdir()) == [
                "variables-0-of-2.ckpt",
                "variables-1-of-2.ckpt",
            ]
            with pytest.raises(ElasticError, match=r"parameter server 0.*checkpoint.json"):
                await master.restore(str(tmp_path), 2)
            assert [list(one.snapshots) for one in await master.status()] == [[], []]
        finally:
            await master.close()

    async def unreachable():
        master = PSControl(["127.0.0.1:1"], token="", timeout=5)
        try:
            with pytest.raises(PSUnavailable, match=r"parameter server 0 at 127\.0\.0\.1:1"):
                await master.status()
        finally:
            await master.close()

    with servers(2) as (_, at), client(at) as worker:
        begin(worker)
        worker.push(*buffers(), version=0, learning_rate=1.0)
        asyncio.run(control(at))
        asyncio.run(unreachable())
