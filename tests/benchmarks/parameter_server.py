"""Parameter server against raw TCP: 40 MB pulled and 40 MB pushed for each step, over loopback, in one run.

Raw TCP is what two Python processes reach with nothing but sockets and one buffer at each end. `--steps` and
`--repeat` make the run longer; sides alternate so that a busy machine slows down both.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import numpy as np

from elastic_runtime.ps.client import PSClient, PSUnavailable, TableSpec
from elastic_runtime.rpc.layout import Layout, Variable
from tests.benchmarks.rows import Row

VALUES = 10_000_000
LAYOUT = Layout(tuple(Variable(f"tensor_{i}", (1000, 1000)) for i in range(10)))


def run(*, steps: int = 12, repeat: int = 5) -> list[Row]:
    """Both sides, for SGD and Adam, with one worker and with two; then rows of an embedding table."""
    rows = []
    for optimizer in ("SGD", "Adam"):
        for count in (1, 2):
            with parameter_server() as address, raw_tcp_peer() as raw_port:
                rounds = [
                    (sum(workers(address, optimizer, steps, count)), raw_tcp_steps(raw_port, steps))
                    for _ in range(repeat)
                ]
            ours, theirs = sorted(rounds, key=lambda pair: pair[0] / pair[1])[repeat // 2]
            name = f"PS push + pull of 40 MB, {optimizer}, {count} worker(s), against raw TCP"
            rows.append(Row(name, ours, theirs, "steps/s", ">= 0.4", "higher"))
    return rows + embedding_rows()


def embedding_rows(*, dimension: int = 16, batch: int = 10_000, batches: int = 50) -> list[Row]:
    """Rows of a table of a million ids, Adam; the bars are what the old Go server reached with its client."""
    random = np.random.default_rng(0)
    ids = random.permutation(1_000_000)
    first = [ids[i * batch : (i + 1) * batch] for i in range(batches)]
    gradients, empty = np.ones((batch, dimension), np.float32), np.zeros(0, np.float32)
    rows = []
    with parameter_server() as address, contextlib.closing(_client(address)) as client:
        table = TableSpec("ids", dimension)
        _until_there(lambda: client.initialize(Layout(()), empty, empty, {"name": "Adam"}, tables=[table]))
        for what, pull_bar, push_bar in (("first touch", 98, 47), ("warm", 664, 266)):
            pull, push = [], []
            for wanted in first:
                start = time.perf_counter()
                client.pull_rows("ids", wanted)
                pulled = time.perf_counter()
                client.push(empty, empty, version=0, learning_rate=0.1, rows={"ids": (wanted, gradients)})
                pull.append(pulled - start)
                push.append(time.perf_counter() - pulled)
            for name, times, bar in (("pull", pull, pull_bar), ("push", push, push_bar)):
                rate = batch / statistics.median(times) / 1000
                title = f"PS {name} of embedding rows, dimension {dimension}, {what}"
                rows.append(Row(title, rate, None, "k rows/s", f"> {bar} (old system)", "higher"))
    return rows


@contextlib.contextmanager
def parameter_server() -> Iterator[str]:
    """A real server process on loopback; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "elastic_runtime.ps", "--job_name=bench", "--ps_id=0", f"--port={port}"]
    command += ["--master_addr=@/nowhere", "--orphan_timeout=3600", "--use_async", "--log_level=WARNING"]
    process = subprocess.Popen(command)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def raw_tcp_peer() -> Iterator[int]:
    """A process that answers P by reading a buffer and L by sending one; its port."""
    here, there = multiprocessing.Pipe()
    process = _spawn(_raw_tcp_server, there)
    try:
        yield int(here.recv())
    finally:
        process.kill()
        process.join()


def raw_tcp_steps(port: int, steps: int) -> float:
    """Steps a second of one client over a plain socket."""
    buffer = memoryview(np.ones(VALUES, np.float32)).cast("B")
    with socket.create_connection(("127.0.0.1", port)) as peer:

        def step() -> None:
            peer.sendall(b"L")
            _read_into(peer, buffer)
            peer.sendall(b"P")
            peer.sendall(buffer)
            peer.recv(1)

        return _rate(step, steps)


def workers(address: str, optimizer: str, steps: int, count: int) -> list[float]:
    """Steps a second of each of `count` worker processes that run at once."""
    pipes = [multiprocessing.Pipe() for _ in range(count)]
    processes = [_spawn(_worker, there, address, optimizer, steps) for _, there in pipes]
    for here, _ in pipes:
        here.recv()
    for here, _ in pipes:
        here.send("go")
    rates = [float(here.recv()) for here, _ in pipes]
    for process in processes:
        process.join()
    return rates


def _worker(pipe: Connection, address: str, optimizer: str, steps: int) -> None:
    client = _client(address)
    weights, state = np.zeros(VALUES, np.float32), np.zeros(0, np.float32)
    gradient = np.full(VALUES, 1e-3, np.float32)
    _until_there(lambda: client.initialize(LAYOUT, weights, state, {"name": optimizer}))

    def step() -> None:
        version = client.pull(weights, state)
        assert client.push(gradient, state, version=version, learning_rate=0.01).accepted

    step()
    pipe.send("ready")
    pipe.recv()
    pipe.send(_rate(step, steps))
    client.close()


def _client(address: str) -> PSClient:
    name = f"worker-{os.getpid()}"
    return PSClient([address], worker=name, incarnation="1", token="", era=1, use_async=True)


def _until_there(call: Callable[[], object]) -> None:
    for _ in range(100):
        try:
            call()
        except PSUnavailable:  # it is starting
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("no parameter server")


def _rate(step: Callable[[], None], steps: int) -> float:
    for _ in range(2):
        step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1 / statistics.median(times)


def _raw_tcp_server(pipe: Connection) -> None:
    buffer = memoryview(np.zeros(VALUES, np.float32)).cast("B")
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        while True:
            peer, _ = server.accept()
            with peer:
                while order := peer.recv(1):
                    if order == b"L":
                        peer.sendall(buffer)
                    else:
                        _read_into(peer, buffer)
                        peer.sendall(b".")


def _read_into(peer: socket.socket, buffer: memoryview) -> None:
    got = 0
    while got < len(buffer):
        got += peer.recv_into(buffer[got:])


def _spawn(target: Callable[..., None], *arguments: object) -> multiprocessing.process.BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for row in run(steps=given.steps, repeat=given.repeat):
        theirs = f", raw TCP {row.theirs:.1f}, ratio {row.ours / row.theirs:.2f}" if row.theirs else ""
        print(f"{row.name}: {row.ours:.1f} {row.unit}{theirs} {row.bar}")
