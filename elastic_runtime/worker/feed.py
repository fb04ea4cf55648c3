"""Records reach the user's `feed` shard by shard, and every batch is known to be of one shard.

One tf.data pipeline lives as long as the worker: shards go in through a queue, and out come the batches of
each shard, in order, then an empty marker. So a shuffle buffer inside `feed` cannot hide records of a shard
that was already reported, the end of a shard is known at once, and `feed` is traced once, however many shards
there are.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.cancellation import CancellationManager

from elastic_runtime.errors import ElasticError
from elastic_runtime.model.user_code import told, user_code
from elastic_runtime.ps.memory import keep_freed_memory

PREFETCHED_BATCHES = 4

_Source = queue.SimpleQueue[tuple[int, list[bytes]] | None]


class ShardFeed:
    """Turns the records of shards into batches by the user's `feed(dataset, mode, metadata)`.

    `put` may be called from any thread, everything else from one. A `feed` may filter, shuffle, and repeat up
    to `max_expansion` times; one that goes on beyond that, or yields nothing for `patience` seconds, is an
    error. After an error the shards put behind the failed one are still to be had.
    """

    element_spec: Any

    def __init__(
        self,
        *,
        feed: Callable[[tf.data.Dataset, str, Any], tf.data.Dataset],
        mode: str,
        metadata: Any,
        batch_size: int,
        max_expansion: int = 100,
        patience: float = 600.0,
    ) -> None:
        self._feed, self._mode, self._metadata, self._batch_size = feed, mode, metadata, batch_size
        self._max_expansion, self._patience = max_expansion, patience
        self._waiting: dict[int, list[bytes]] = {}
        self._lock = threading.Lock()
        self._source: _Source = queue.SimpleQueue()
        signature = (tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.string))
        shards = tf.data.Dataset.from_generator(
            lambda: iter(self._source.get, None), output_signature=signature
        )
        with user_code("feed"):
            self._batches = shards.flat_map(self._batches_of_a_shard).prefetch(PREFETCHED_BATCHES)
        self._flow = _Flow(self._batches, self._source, patience)

    def put(self, number: int, records: list[bytes]) -> None:
        """Hand in the records of a shard; they are read ahead while earlier shards train."""
        with self._lock:
            self._waiting[number] = records
            self._source.put((number, records))

    def batches(self, number: int) -> Iterator[Any]:
        """The batches of that shard; what is left of shards put before it is skipped."""
        self._skip_to(number)
        records = len(self._waiting[number])
        most = -(-records * self._max_expansion // self._batch_size)
        for _ in range(most + 1):
            batch = self._next(number)
            if batch is None:
                with self._lock:
                    del self._waiting[number]
                return
            yield batch
        self._restart(without=[number])
        raise ElasticError(
            f"feed yielded more than {self._max_expansion} times the {records} records of a shard",
            where="the model's feed",
            remedy="feed must end with its dataset: take .repeat() out, the job counts the epochs",
        )

    def discard_all(self) -> None:
        """Forget every shard that was put, read ahead or not."""
        self._restart(without=list(self._waiting))

    def close(self) -> None:
        """End the pipeline and its threads."""
        self._flow.close()

    def _next(self, number: int) -> Any:
        """The next batch of that shard; None at its end."""
        try:
            found, batch = self._flow.next()
        except tf.errors.CancelledError:
            self._restart(without=[number])
            raise ElasticError(
                f"feed yielded nothing of a shard for {self._patience:g} s and did not end",
                where="the model's feed",
                remedy="feed must end with its dataset: is there a .repeat() before a .filter()?",
            ) from None
        except Exception as error:
            self._restart(without=[number])
            raise told("feed", error) from error
        assert found == number, (found, number)
        return batch.get_value() if batch.has_value() else None

    def _skip_to(self, number: int) -> None:
        with self._lock:
            before = list(self._waiting)[: list(self._waiting).index(number)]
        if before:
            self._restart(without=before)

    def _restart(self, *, without: Iterable[int]) -> None:
        """Replace a pipeline that cannot go on; the shards that wait in it are put into the new one."""
        self._flow.close()
        with self._lock:
            for number in without:
                del self._waiting[number]
            self._source = queue.SimpleQueue()
            for item in self._waiting.items():
                self._source.put(item)
        self._flow = _Flow(self._batches, self._source, self._patience)

    def _batches_of_a_shard(self, number: tf.Tensor, records: tf.Tensor) -> tf.data.Dataset:
        dataset = self._feed(tf.data.Dataset.from_tensor_slices(records), self._mode, self._metadata)
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(f"feed must return a tf.data.Dataset, not {type(dataset).__name__}")
        dataset = dataset.batch(self._batch_size)
        self.element_spec = spec = dataset.element_spec
        optional = tf.experimental.Optional
        end = tf.data.Dataset.from_tensors((number, optional.empty(spec)))

        def numbered(*parts: Any) -> tuple[tf.Tensor, Any]:
            return number, optional.from_value(parts if isinstance(spec, tuple) else parts[0])

        return dataset.map(numbered).concatenate(end)


class _Flow:
    """One pass over the pipeline: gives its elements, and can be stopped while it is waited for.

    A thread watches how long `next` has been waiting. TensorFlow's own cancellation is what ends a pipeline
    that goes round for ever without yielding; nothing else does, not even deleting its iterator.
    """

    def __init__(self, dataset: tf.data.Dataset, source: _Source, patience: float) -> None:
        self._patience = patience
        self._cancellation = CancellationManager()
        iterator = iter(dataset)
        step = tf.function(iterator.get_next, autograph=False).get_concrete_function()
        self._step = self._cancellation.get_cancelable_function(step)
        self._waiting_since: float | None = None
        self._begun = False
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._cancel_when_overdue, name="feed-watch", daemon=True)
        self._watch.start()
        # A generator left waiting would keep the process from ending.
        self._release = weakref.finalize(self, source.put, None)

    def next(self) -> tuple[int, Any]:
        """A shard's number, and an optional batch of it."""
        self._waiting_since = time.monotonic()
        try:
            number, batch = self._step()
        finally:
            self._waiting_since = None
        if not self._begun:
            self._begun = True
            keep_freed_memory()  # a generator that begins makes malloc give back what each step needs
        return int(number), batch

    def close(self) -> None:
        """Stop the pipeline wherever it is."""
        self._closed.set()
        self._cancellation.start_cancel()
        self._release()
        self._watch.join()

    def _cancel_when_overdue(self) -> None:
        rest = self._patience
        while not self._closed.wait(rest):
            since = self._waiting_since
            rest = self._patience - (0.0 if since is None else time.monotonic() - since)
            if rest <= 0:
                self._cancellation.start_cancel()
                return
