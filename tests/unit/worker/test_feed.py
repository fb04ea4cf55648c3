"""Shards go in, and exactly their batches come out, whatever the user's feed does."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from elastic_runtime.errors import ElasticError

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def open_feed():
    """Makes feeds that are closed after the test."""
    from elastic_runtime.worker.feed import ShardFeed

    feeds = []

    def make(feed, batch_size=2, mode="training", **options):
        feeds.append(ShardFeed(feed=feed, mode=mode, metadata="m", batch_size=batch_size, **options))
        return feeds[-1]

    yield make
    for feed in feeds:
        feed.close()


def numbers(dataset, mode, metadata):
    import tensorflow as tf

    return dataset.map(lambda record: tf.strings.to_number(record, tf.int64))


def records(*values):
    return [str(value).encode() for value in values]


def taken(feed, number):
    return [np.asarray(batch).tolist() for batch in feed.batches(number)]


def test_each_shard_gives_its_own_batches_with_the_remainder_kept(open_feed):
    feed = open_feed(numbers)
    feed.put(7, records(1, 2, 3))
    feed.put(9, records(4))
    feed.put(12, [])
    assert [taken(feed, number) for number in (7, 9, 12)] == [[[1, 2], [3]], [[4]], []]


def test_shuffling_never_mixes_shards(open_feed):
    feed = open_feed(lambda *a: numbers(*a).shuffle(1000), batch_size=100)
    for shard in range(5):
        feed.put(shard, records(*range(shard * 10, shard * 10 + 10)))
    for shard in range(5):
        (batch,) = taken(feed, shard)
        assert sorted(batch) == list(range(shard * 10, shard * 10 + 10))


def test_feed_is_traced_once_however_many_shards_there_are(open_feed):
    traced = []

    def feed(dataset, mode, metadata):
        traced.append((mode, metadata))
        return numbers(dataset, mode, metadata)

    shards = open_feed(feed, mode="evaluation")
    for shard in range(20):
        shards.put(shard, records(*range(shard)))
        assert sum(map(len, taken(shards, shard))) == shard
    assert traced == [("evaluation", "m")]


def test_form_of_a_batch_is_known_before_any_data(open_feed):
    import tensorflow as tf

    feed = open_feed(lambda *a: numbers(*a).map(lambda n: ({"a": tf.fill([3], n)}, n)))
    features, labels = feed.element_spec
    assert features["a"].shape.as_list() == [None, 3]
    assert labels.shape.as_list() == [None]


def test_records_may_be_filtered_or_repeated_a_few_times(open_feed):
    odd = open_feed(lambda *a: numbers(*a).filter(lambda n: n % 2 == 1))
    odd.put(1, records(2, 4))
    odd.put(2, records(1, 2, 3))
    assert [taken(odd, 1), taken(odd, 2)] == [[], [[1, 3]]]
    thrice = open_feed(lambda *a: numbers(*a).repeat(3), max_expansion=3)
    thrice.put(1, records(5))
    assert taken(thrice, 1) == [[5, 5], [5]]


@pytest.mark.parametrize("kind", ["ragged", "sparse", "one_tuple"])
def test_any_structure_of_batches_passes(open_feed, kind):
    import tensorflow as tf

    makers = {
        "ragged": lambda n: tf.RaggedTensor.from_row_lengths([n, n], [2]),
        "sparse": lambda n: tf.sparse.from_dense(tf.stack([n, tf.zeros_like(n)])),
        "one_tuple": lambda n: (n,),
    }
    feed = open_feed(lambda *a: numbers(*a).map(makers[kind]))
    feed.put(1, records(1, 2, 3))
    first, last = feed.batches(1)
    if kind == "one_tuple":
        assert [part.numpy().tolist() for part in first + last] == [[1, 2], [3]]
    else:
        dense = [tf.sparse.to_dense(b) if kind == "sparse" else b.to_tensor() for b in (first, last)]
        assert [int(tf.reduce_sum(d)) for d in dense] == ([3, 3] if kind == "sparse" else [6, 6])


def test_feed_that_yields_for_ever_is_named(open_feed):
    feed = open_feed(lambda *a: numbers(*a).repeat(), max_expansion=10)
    feed.put(1, records(1, 2, 3))
    with pytest.raises(ElasticError, match=r"more than 10 times the 3 records.*\.repeat"):
        taken(feed, 1)


def test_feed_that_never_yields_is_named_and_its_threads_end(open_feed):
    feed = open_feed(lambda *a: numbers(*a).repeat().filter(lambda n: n > 5), patience=0.2)
    feed.put(1, records(1, 2, 3))
    feed.put(2, [])
    with pytest.raises(ElasticError, match=r"yielded nothing of a shard for 0\.2 s"):
        taken(feed, 1)
    feed._flow._patience = 60.0  # for a shard that does end a busy machine may need longer
    assert taken(feed, 2) == []


def test_error_at_run_time_fails_its_shard_only(open_feed):
    import tensorflow as tf

    def parse(record):
        def python(text):
            if text == b"3":
                raise KeyError("three")
            return np.int64(text)

        return tf.ensure_shape(tf.numpy_function(python, [record], tf.int64), [])

    feed = open_feed(lambda dataset, mode, metadata: dataset.map(parse))
    feed.put(1, records(1, 2, 3, 4))
    feed.put(2, records(5, 6))
    with pytest.raises(ElasticError, match="in feed: KeyError: 'three'"):
        taken(feed, 1)
    assert taken(feed, 2) == [[5, 6]]


def test_error_while_the_pipeline_is_built_names_feed(open_feed):
    with pytest.raises(ElasticError, match=r"test_feed\.py:\d+, in feed: NameError: name 'undefined'"):
        open_feed(lambda dataset, mode, metadata: dataset.map(lambda r: undefined + r))  # noqa: F821
    with pytest.raises(ElasticError, match=r"must return a tf\.data\.Dataset, not NoneType"):
        open_feed(lambda dataset, mode, metadata: None)


def test_shards_that_were_given_up_are_skipped(open_feed):
    feed = open_feed(numbers)
    for shard in range(4):
        feed.put(shard, records(*[shard] * 5))
    assert next(feed.batches(0)).numpy().tolist() == [0, 0]
    assert taken(feed, 2) == [[2, 2], [2, 2], [2]]
    feed.discard_all()
    feed.put(9, records(9))
    assert taken(feed, 9) == [[9]]


def test_shards_may_be_put_by_another_thread(open_feed):
    feed = open_feed(numbers)
    for shard in range(3):
        feed.put(shard, records(shard))
    putter = threading.Thread(target=lambda: [feed.put(n, records(n)) for n in range(3, 30)])
    putter.start()
    found = []
    for shard in range(3):
        found += taken(feed, shard)
    putter.join()
    for shard in range(3, 30):
        found += taken(feed, shard)
    assert found == [[n] for n in range(30)]


def test_process_ends_though_its_feed_was_never_closed_and_has_one_thread():
    program = """
from elastic_runtime.worker.feed import ShardFeed
feed = ShardFeed(feed=lambda d, mode, metadata: d, mode="training", metadata=None, batch_size=1)
feed.put(1, [b"a", b"b"])
assert len(list(feed.batches(1))) == 2
feed.put(2, [b"a", b"b"])
next(feed.batches(2))
raise SystemExit(7)
"""
    one_thread = {"TF_NUM_INTEROP_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | one_thread, timeout=280, check=False
    )
    assert done.returncode == 7
