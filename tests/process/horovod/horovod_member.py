"""One process of a Horovod world: does what it is told, call by call, and answers with value or error.

`abort` is done by another thread at once, whatever the first one is waiting in.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


def init(env: dict[str, str]) -> tuple[int, int]:
    os.environ.update(env)
    hvd.init()
    return hvd.rank(), hvd.size()


def shutdown() -> None:
    hvd.shutdown()


def mean(values: list[float], length: int = 1, compressed: bool = False) -> tuple[float, float]:
    """The least and the greatest element of the average of tensors that hold this rank's value throughout."""
    mine = tf.fill([length], values[hvd.rank()])
    compression = hvd.Compression.fp16 if compressed else hvd.Compression.none
    result = hvd.allreduce(mine, op=hvd.Average, name="mean", compression=compression)
    return float(tf.reduce_min(result)), float(tf.reduce_max(result))


def sum_of_ramps(length: int, scale: float = 1.0) -> tuple[bool, bool]:
    """Whether the sum of each rank's own multiple of a ramp is right, and its summand as it was."""
    ramp = np.arange(length, dtype=np.float32) % 1000
    mine = tf.constant(ramp * (1 + hvd.rank()))
    total = hvd.allreduce(mine, op=hvd.Sum, name="ramps", prescale_factor=scale)
    multiples = scale * sum(range(1, hvd.size() + 1))
    return np.array_equal(total, ramp * multiples), np.array_equal(mine, ramp * (1 + hvd.rank()))


def sums_of_halves(values: list[float], length: int) -> tuple[float, float]:
    """As of `mean`, but of sums of half floats that travel together."""
    mine = tf.cast(tf.fill([length], values[hvd.rank()]), tf.float16)
    first, second = hvd.grouped_allreduce([mine, mine], op=hvd.Sum, name="halves")
    return float(tf.reduce_min([first, second])), float(tf.reduce_max([first, second]))


def mean_of_rows(rows: list[int], shape: tuple[int, int]) -> list[list[float]]:
    """The average of sparse tensors, each with a one in one row, made dense."""
    mine = tf.IndexedSlices(tf.ones([1, shape[1]]), tf.constant([rows[hvd.rank()]]), tf.constant(shape))
    result = hvd.allreduce(mine, op=hvd.Average, name="rows")
    return tf.math.unsorted_segment_sum(result.values, result.indices, shape[0]).numpy().tolist()


@tf.function
def _grouped(first: tf.Tensor, second: tf.Tensor) -> Any:
    return hvd.grouped_allreduce([first, second], op=hvd.Sum)


def grouped_sums(step: int) -> tuple[float, float]:
    """Two sums in one traced function, whose trace serves every later world too."""
    first, second = _grouped(tf.fill([3], float(step)), tf.fill([2, 2], float(hvd.rank())))
    return float(first[0]), float(second[1, 1])


def broadcast(value: float) -> float:
    return float(hvd.broadcast(tf.constant(value), root_rank=0, name="value"))


def gather() -> list[int]:
    """Rank r gives r + 1 copies of its rank."""
    return hvd.allgather(tf.fill([hvd.rank() + 1], hvd.rank()), name="gather").numpy().tolist()


def large_copies(times: int, megabytes: int) -> None:
    """Copies of rank 0's tensor, each of them one message."""
    mine = tf.constant(np.ones(megabytes << 18, np.float32))
    for _ in range(times):
        hvd.broadcast(mine, root_rank=0, name="large")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _listen(orders: Connection, calls: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            call, name, arguments = orders.recv()
        except EOFError:
            os._exit(0)  # the test has ended; the first thread may be waiting for a peer
        if name == "abort":
            hvd.abort()
        else:
            calls.put((call, name, arguments))


def main() -> None:
    orders = Connection(int(sys.argv[1]))
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders, calls), daemon=True).start()
    while True:
        call, name, arguments = calls.get()
        begun = time.monotonic()
        try:
            value, error = globals()[name](**arguments), None
        except (tf.errors.OpError, ValueError, RuntimeError) as failure:
            value, error = None, f"{type(failure).__name__}: {failure}"
        orders.send((call, value, error, time.monotonic() - begun))


if __name__ == "__main__":
    main()
