"""A member's bond with its master, over real gRPC on loopback."""

import asyncio
import queue
import subprocess
import sys
import threading
from concurrent import futures

import grpc
import pytest

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.rpc import channel, token
from elastic_runtime.rpc.master_pb2 import (
    Empty,
    Member,
    Order,
    ReachedRequest,
    SnapshotOrder,
    StatusReply,
    StatusRequest,
)
from elastic_runtime.rpc.master_pb2_grpc import MasterServicer, MasterStub, add_MasterServicer_to_server
from elastic_runtime.rpc.membership import WELCOME, MasterAway, Membership

SECONDS = 60
"""For whatever is waited for; it takes a moment."""


class Master(MasterServicer):
    """Takes members up and sends them what the test puts into `orders`."""

    def __init__(self, *, token="", port=0):
        self.joined, self.orders, self.reached = queue.Queue(), queue.Queue(), []
        self.server = channel.server(threads=4, token=token)
        add_MasterServicer_to_server(self, self.server)
        self.port = channel.listen(self.server, "127.0.0.1", port, token=token)
        self.server.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def Join(self, request, context):
        context.add_callback(lambda: self.orders.put(None))
        context.send_initial_metadata(WELCOME)
        self.joined.put(request)
        yield from iter(self.orders.get, None)

    def Reached(self, request, context):
        self.reached.append(request.version)
        return Empty()

    def Status(self, request, context):
        return StatusReply(job="j")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()


class Process:
    """What a membership reports to."""

    def __init__(self, address, *, orphan_timeout=600.0, token=""):
        self.orders, self.orphaned, self.connections = queue.Queue(), threading.Event(), queue.Queue()
        self.membership = Membership(
            address,
            lambda: Member(name="ps-0"),
            self.orders.put,
            orphan_timeout=orphan_timeout,
            on_orphaned=self.orphaned.set,
            token=token,
            on_connection=self.connections.put,
        )


def test_member_joins_and_gets_orders():
    with Master() as master, Process(master.address).membership as membership:
        assert master.joined.get(timeout=SECONDS).name == "ps-0"
        process_orders = membership._on_order.__self__
        master.orders.put(Order(snapshot=SnapshotOrder()))
        assert process_orders.get(timeout=SECONDS).WhichOneof("order") == "snapshot"


def test_member_finds_the_successor_in_the_address_file(tmp_path):
    address = tmp_path / "address"
    process = Process(f"@{address}")
    with process.membership:
        with Master() as first:
            address.write_text(first.address)
            first.joined.get(timeout=SECONDS)
            assert process.connections.get(timeout=SECONDS) is True
        assert process.connections.get(timeout=SECONDS) is False
        with Master() as second:
            address.write_text(second.address)
            second.joined.get(timeout=SECONDS)
            assert process.connections.get(timeout=SECONDS) is True
    assert not process.orphaned.is_set()


def test_call_waits_for_the_master_to_come(tmp_path):
    address = tmp_path / "address"
    with Process(f"@{address}").membership as membership, futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(membership.call, lambda master: master.Reached(ReachedRequest(version=7)))
        with Master() as master:
            address.write_text(master.address)
            waiting.result(timeout=SECONDS)
            assert master.reached == [7]


def test_call_gives_up_when_told_to_and_when_the_membership_closes(tmp_path):
    process = Process(f"@{tmp_path / 'nowhere'}")
    with process.membership as membership, futures.ThreadPoolExecutor() as pool:
        with pytest.raises(MasterAway, match="nowhere"):
            membership.call(lambda master: master.Status(StatusRequest()), wait=0.05)
        waiting = pool.submit(membership.call, lambda master: master.Status(StatusRequest()))
        membership.close()
        with pytest.raises(MasterAway, match="ending"):
            waiting.result(timeout=SECONDS)


def test_member_without_a_master_is_an_orphan_after_its_timeout(tmp_path):
    process = Process(f"@{tmp_path / 'nowhere'}", orphan_timeout=0.2)
    with process.membership:
        assert process.orphaned.wait(SECONDS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_member_that_fails_an_order_ends_like_an_orphan():
    process = Process("")
    with Master() as master:
        membership = Membership(
            master.address,
            Member,
            lambda order: (_ for _ in ()).throw(RuntimeError),
            orphan_timeout=60,
            on_orphaned=process.orphaned.set,
            token="",
        )
        with membership:
            master.orders.put(Order(snapshot=SnapshotOrder()))
            assert process.orphaned.wait(SECONDS)


def test_wrong_token_never_joins():
    with Master(token="right") as master:
        process = Process(master.address, orphan_timeout=0.3, token="wrong")
        with process.membership:
            assert process.orphaned.wait(SECONDS)
        assert master.joined.empty()
        assert process.connections.empty()
        with Process(master.address, token="right").membership:
            assert master.joined.get(timeout=SECONDS).name == "ps-0"


@pytest.mark.parametrize("given", ["", "wrong", "righ", "right "])
def test_call_without_the_token_is_refused(given):
    with Master(token="right") as master, channel.connect(master.address, token=given) as link:
        with pytest.raises(grpc.RpcError) as caught:
            MasterStub(link).Status(StatusRequest())
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_asyncio_carries_and_checks_the_token_too():
    class AioMaster(MasterServicer):
        async def Status(self, request, context):
            return StatusReply(job="j")

        async def Join(self, request, context):
            yield Order(snapshot=SnapshotOrder())

    async def ask(port, given):
        async with channel.connect_aio(f"127.0.0.1:{port}", token=given) as link:
            orders = [order.WhichOneof("order") async for order in MasterStub(link).Join(Member())]
            return orders, (await MasterStub(link).Status(StatusRequest())).job

    async def run():
        server = channel.server_aio(token="right")
        add_MasterServicer_to_server(AioMaster(), server)
        port = channel.listen(server, "127.0.0.1", 0, token="right")
        await server.start()
        assert await ask(port, "right") == (["snapshot"], "j")
        with pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"):
            await ask(port, "wrong")
        await server.stop(None)

    asyncio.run(run())


def test_taken_port_is_one_clear_error():
    with Master() as master, pytest.raises(ElasticError, match=f"{master.port}.*taken"):
        Master(port=master.port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_open_door_is_for_loopback_only(host):
    with pytest.raises(InputError, match="ELASTICDL_TOKEN"):
        channel.listen(channel.server(threads=1, token=""), host, 0, token="")


def test_token_comes_from_the_environment_or_a_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("abc\n")
    assert token.token_from_environment({}) == ""
    assert token.token_from_environment({"ELASTICDL_TOKEN": "xyz"}) == "xyz"
    assert token.token_from_environment({"ELASTICDL_TOKEN_FILE": str(file)}) == "abc"
    with pytest.raises(InputError, match="no/where"):
        token.token_from_environment({"ELASTICDL_TOKEN_FILE": "/no/where"})
    with pytest.raises(InputError, match="ASCII"):
        token.token_from_environment({"ELASTICDL_TOKEN": "naïve"})


CALL_AFTER_CLOSE = """
from elastic_runtime.rpc.channel import connect
from elastic_runtime.rpc.master_pb2 import StatusRequest
from elastic_runtime.rpc.master_pb2_grpc import MasterStub
channel = connect("127.0.0.1:1", token="secret")
stub = MasterStub(channel)
channel.close()
try:
    stub.Status(StatusRequest(), timeout=5)
except ValueError as error:
    print(error)
"""


def test_a_call_on_a_channel_that_another_thread_has_just_closed_is_an_error_and_not_the_end():
    """In a process of its own: with gRPC's interceptors this was a segmentation fault."""
    ended = subprocess.run(
        [sys.executable, "-c", CALL_AFTER_CLOSE], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.returncode
    assert "closed channel" in ended.stdout
