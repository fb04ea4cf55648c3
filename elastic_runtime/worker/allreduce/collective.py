"""Horovod, as far as it is used: coming together as a world, leaving it, and the operations in it.

Every operation has a name that is the same in each process, whatever function it is traced into, and fails
with `PeerLost` when a member of the world is gone. `abort` may be called from any thread, the rest only from
the one that trains.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

PREFIX = "elasticdl_"
_OURS = (f"node {PREFIX}", "Op:Horovod", "Horovod has been shut down")
"""What shows that an operation of this module failed, and not one of the user's."""
_INTERFACE = os.environ.get("HOROVOD_GLOO_IFACE")
"""The network to use, if the user names one."""


class PeerLost(Exception):
    """A member of the world is gone, or the world did not come together."""


@dataclass(frozen=True, slots=True)
class Place:
    """A seat in a world: `store` is where its members find each other (empty: there is but this one), `name`
    is this process's own in it.
    """

    world: int
    rank: int
    size: int
    store: str
    name: str


def come_together(place: Place, *, timeout: float) -> None:
    """Meet the other members of a world; at most `timeout` seconds for this, and for any operation in it."""
    host, _, port = place.store.rpartition(":")
    os.environ.update(
        HOROVOD_RANK=str(place.rank),
        HOROVOD_SIZE=str(place.size),
        HOROVOD_HOSTNAME=place.name.replace("/", "-"),
        HOROVOD_CONTROLLER="gloo",
        HOROVOD_CPU_OPERATIONS="gloo",
        HOROVOD_ELASTIC="0",
        HOROVOD_GLOO_TIMEOUT_SECONDS=str(max(1, round(timeout))),
    )
    _set_or_drop("HOROVOD_GLOO_RENDEZVOUS_ADDR", host)
    _set_or_drop("HOROVOD_GLOO_RENDEZVOUS_PORT", port)
    if _INTERFACE is None:
        _set_or_drop("HOROVOD_GLOO_IFACE", "lo" if not host or host.startswith("127.") else "")
    os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")  # a worker that evaluates is not stalled
    os.environ.setdefault("HOROVOD_LOG_LEVEL", "fatal")  # what fails is told by this process itself
    try:
        hvd.init()
    except Exception as problem:
        raise PeerLost(f"the world did not come together: {problem}") from problem


def _set_or_drop(name: str, value: str) -> None:
    if value:
        os.environ[name] = value
    else:
        os.environ.pop(name, None)


def leave(*, agreed: bool) -> None:
    """Leave the world, harmless when in none: as all agreed to, or at once, waiting for nobody."""
    if not agreed:
        hvd.abort()
    hvd.shutdown()


def abort() -> None:
    """End what the training thread waits for in this world; it finds a `PeerLost`."""
    hvd.abort()


def total(tensor: Any, name: str) -> Any:
    """The sum of a tensor over all members; to be traced, and not of a constant.

    TensorFlow takes these operations for functions of their input. It would do a constant's only once, when
    it compiles, and only one of two with the same input, which then have one name less in this process than
    in others: so each carries its name as an attribute, too.
    """
    summed = hvd.mpi_ops._allreduce(tensor, name=PREFIX + name, op=hvd.Sum, ignore_name_scope=True)
    summed.op._set_attr("_elasticdl_name", attr_value_pb2.AttrValue(s=name.encode()))
    return summed


def from_first(tensors: Sequence[Any]) -> list[Any]:
    """What rank 0 has in these; to be traced."""
    return [
        hvd.broadcast(tensor, 0, name=f"{PREFIX}value_{number}", ignore_name_scope=True)
        for number, tensor in enumerate(tensors)
    ]


def array_from_first(array: Any) -> Any:
    """An array of rank 0; the others give one of its shape and type."""
    with peers():
        return hvd.broadcast(tf.convert_to_tensor(array), 0, name=f"{PREFIX}array").numpy()


@contextmanager
def peers() -> Iterator[None]:
    """Inside, the failure of an operation is the loss of a peer."""
    try:
        yield
    except (tf.errors.UnknownError, tf.errors.AbortedError, tf.errors.FailedPreconditionError) as error:
        if any(sign in error.message for sign in _OURS):
            raise PeerLost(_cause(error.message)) from error
        raise


def _cause(message: str) -> str:
    """What Horovod says, without TensorFlow's account of where."""
    said = [line.strip() for line in message.splitlines() if "orovod" in line or "onnection" in line]
    telling = [line for line in said if not line.startswith(("File ", "[[", "Detected at"))]
    return (telling or ["a member is lost"])[-1].partition(". This was")[0]
