"""A parameter server as a real process: how it starts, joins, and ends, with a master that is real gRPC."""

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from elastic_runtime.ps.client import PSClient, PSUnavailable, Reason
from elastic_runtime.rpc import channel
from elastic_runtime.rpc.layout import Layout, Variable
from elastic_runtime.rpc.master_pb2 import ROLE_PS, DrainOrder, Empty, Order
from elastic_runtime.rpc.master_pb2_grpc import MasterServicer, add_MasterServicer_to_server
from elastic_runtime.rpc.membership import WELCOME
from tests.process.job.harness import free_port

LAYOUT = Layout((Variable("w", (1000,)),))
EMPTY = np.zeros(0, np.float32)
SECONDS = 120
"""For whatever is waited for; it takes one or two."""


class Master(MasterServicer):
    """Takes members up, passes on orders, remembers what it is told."""

    def __init__(self):
        self.joined, self.orders, self.reached = queue.Queue(), queue.Queue(), queue.Queue()
        self.server = channel.server(threads=8, token="secret")
        add_MasterServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{channel.listen(self.server, '127.0.0.1', 0, token='secret')}"
        self.server.start()

    def Join(self, request, context):
        context.send_initial_metadata(WELCOME)
        context.add_callback(lambda: self.orders.put(None))
        self.joined.put(request)
        yield from iter(self.orders.get, None)

    def Reached(self, request, context):
        self.reached.put(request)
        return Empty()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()


@contextlib.contextmanager
def parameter_server(master_addr, *options):
    command = [
        sys.executable,
        "-m",
        "elastic_runtime.ps",
        "--job_name=j",
        "--ps_id=0",
        f"--master_addr={master_addr}",
    ]
    environment = os.environ | {"ELASTICDL_TOKEN": "secret"}
    process = subprocess.Popen([*command, *options], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def worker(address):
    client = PSClient(
        [address], worker="w", incarnation="1", token="secret", era=1, use_async=False, timeout=SECONDS
    )
    try:
        yield client
    finally:
        client.close()


def initialize(client):
    client.initialize(LAYOUT, np.zeros(1000, np.float32), EMPTY, {"name": "SGD"})


def push(client, version=0, *, retry=False):
    gradient = np.ones(1000, np.float32)
    return client.push(gradient, EMPTY, version=version, learning_rate=1.0, retry=retry)


def repeated(client):
    """As a worker does: again, until the channel has found its server again."""
    delays, deadline = channel.backoff(), time.monotonic() + SECONDS
    while True:
        try:
            return push(client, 1, retry=True)
        except PSUnavailable:
            assert time.monotonic() < deadline, f"the server was not found again within {SECONDS} s"
            time.sleep(next(delays))


def test_joins_serves_reports_snapshots_and_leaves_when_told():
    with Master() as master, parameter_server(master.address, "--evaluation_steps=1") as process:
        member = master.joined.get(timeout=SECONDS)
        assert (member.role, member.name, member.pid) == (ROLE_PS, "elasticdl-j-ps-0", process.pid)
        assert (member.state, member.version) == ("fresh", 0)
        with worker(member.address) as client:
            initialize(client)
            assert push(client).version == 1
            assert master.reached.get(timeout=SECONDS).version == 1
        master.orders.put(Order(drain=DrainOrder(reason="the job is done")))
        assert process.wait(SECONDS) == 0
        assert "the job is done" in process.stderr.read()


def test_outlives_its_master_and_tells_the_successor_what_it_holds(tmp_path):
    address = tmp_path / "address"
    with parameter_server(f"@{address}", f"--orphan_timeout={SECONDS}") as process:
        with Master() as first:
            address.write_text(first.address)
            member = first.joined.get(timeout=SECONDS)
            with worker(member.address) as client:
                initialize(client)
                push(client)
        with Master() as second:
            address.write_text(second.address)
            again = second.joined.get(timeout=SECONDS)
            assert (again.state, again.version, again.incarnation) == ("ready", 1, member.incarnation)
        assert process.poll() is None


def test_ends_itself_without_a_master_and_says_what_it_waited_for(tmp_path):
    with parameter_server(f"@{tmp_path}/none", "--orphan_timeout=0.5") as process:
        assert process.wait(SECONDS) == 0
        said = process.stderr.read()
    assert "waiting for the master" in said
    assert f"{tmp_path}/none" in said
    assert "no master" in said


def test_terminated_server_answers_who_waits_and_ends():
    with Master() as master, parameter_server(master.address, "--grads_to_wait=2") as process:
        with worker(master.joined.get(timeout=SECONDS).address) as client:
            initialize(client)
            client.set_senders(1, ["w", "other"])
            waiting = client._pool.submit(push, client)
            deadline = time.monotonic() + SECONDS
            while not client.status()[0].waiting:
                assert time.monotonic() < deadline, f"no gradient waits within {SECONDS} s"
            process.send_signal(signal.SIGTERM)
            assert waiting.result(SECONDS).reason is Reason.ENDING
            assert process.wait(SECONDS) == 0
        assert "Traceback" not in process.stderr.read()


def test_killed_server_is_unavailable_and_its_successor_starts_fresh():
    port = f"--port={free_port()}"
    with Master() as master, parameter_server(master.address, port) as process:
        member = master.joined.get(timeout=SECONDS)
        with worker(member.address) as client:
            initialize(client)
            push(client)
            process.kill()
            process.wait()
            with pytest.raises(PSUnavailable):
                push(client, 1)
            with parameter_server(master.address, port):
                again = master.joined.get(timeout=SECONDS)
                assert (again.state, again.address) == ("fresh", member.address)
                assert repeated(client).reason is Reason.NOT_INITIALISED


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--ps_id=3"], 2, "there is no server 3 of 1"),
        (["--grads_to_wait=0"], 2, "--grads_to_wait: got '0'"),
        (["--use_asink"], 2, "use_asink"),
        (["--use_async=maybe"], 2, "maybe"),
    ],
)
def test_bad_command_line_is_one_clear_error(options, code, said):
    with parameter_server("127.0.0.1:1", *options) as process:
        assert process.wait(SECONDS) == code
        lines = process.stderr.read().strip().splitlines()
    assert said in lines[-1]


def test_taken_port_is_one_clear_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with parameter_server("127.0.0.1:1", f"--port={port}") as process:
            assert process.wait(SECONDS) == 1
            said = process.stderr.read()
    assert f"127.0.0.1:{port}: cannot listen here" in said
    assert "Traceback" not in said
