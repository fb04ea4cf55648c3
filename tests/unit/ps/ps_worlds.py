"""Small worlds for tests of the parameter server: a store, pushes for it, real servers on loopback."""

import contextlib
import itertools
import threading

import numpy as np

from elastic_runtime.ps import service
from elastic_runtime.ps.client import PSClient
from elastic_runtime.ps.copies import pieces
from elastic_runtime.ps.model import Model
from elastic_runtime.ps.pushes import Merge, Push, PushId
from elastic_runtime.ps.shard import Shard
from elastic_runtime.ps.store import Settings, Store
from elastic_runtime.rpc import channel
from elastic_runtime.rpc.layout import Layout, Variable

SGD = {"name": "SGD"}
_sequence = itertools.count(1)


def layout(weights=4, state=2):
    return Layout((Variable("w", (weights,)),), (Variable("s", (state,)),))


def store(*, weights=4, state=2, optimizer=SGD, version=0, era=1, **settings):
    made = Store(Settings(**settings), threading.RLock())
    model = Model(
        layout(weights, state), optimizer, np.zeros(weights, np.float32), np.zeros(state, np.float32)
    )
    made.hold(model, version=version, era=era)
    return made


def push(
    worker, value=1.0, *, version=0, era=1, rate=1.0, delta=0.0, weights=4, state=2, seq=None, merge=None
):
    seq = next(_sequence) if seq is None else seq
    merge = Merge(merge[0], tuple(merge[1])) if merge else None
    parts = cut(np.full(weights, value, np.float32)), cut(np.full(state, delta, np.float32))
    return Push(
        PushId(worker, "start-1", seq),
        era,
        version,
        rate,
        *parts,
        merge=merge,
        finite=bool(np.isfinite(value)),
    )


def cut(values):
    return [values[piece] for piece in pieces(values.size)]


@contextlib.contextmanager
def servers(count=1, *, token="", on_snapshot=lambda _: None, **settings):
    """Real servers on loopback: the shards and their addresses."""
    shards, made, addresses = [], [], []
    for index in range(count):
        shard = Shard(
            Settings(index=index, parts=count, **settings), on_snapshot if index == 0 else lambda _: None
        )
        server = channel.server(threads=64, token=token)
        service.add_to_server(shard, server)
        addresses.append(f"127.0.0.1:{channel.listen(server, '127.0.0.1', 0, token=token)}")
        server.start()
        shards.append(shard)
        made.append(server)
    try:
        yield shards, addresses
    finally:
        for shard, server in zip(shards, made, strict=True):
            shard.end()
            server.stop(None).wait()


@contextlib.contextmanager
def client(
    addresses, worker="worker-0", *, era=1, use_async=False, token="", incarnation="start-1", timeout=60.0
):
    made = PSClient(
        addresses,
        worker=worker,
        incarnation=incarnation,
        token=token,
        era=era,
        use_async=use_async,
        timeout=timeout,
    )
    try:
        yield made
    finally:
        made.close()
