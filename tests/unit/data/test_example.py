"""`tf.train.Example`s written by hand are those that TensorFlow writes and reads."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data.example import decode, encode
from elastic_runtime.errors import ElasticError, InputError

FEATURES: dict[str, Any] = {
    "image": np.linspace(0, 255, 784, dtype=np.float32).reshape(28, 28),
    "label": 7,
    "long": [-1, 0, 127, 128, 2**63 - 1, -(2**63)],
    "mixed": [1, 2.5],
    "half": np.array([0.5], np.float16),
    "name": "höl",
    "raw": [b"", b"\xff\0", "text"],
    "flags": np.array([True, False]),
    "none": [],
    "strings": np.array(["a", "bc"]),
}


@pytest.fixture(scope="module")
def tf() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    return tensorflow


@pytest.mark.tensorflow
def test_bytes_are_those_of_tensorflow(tf):
    theirs = tf.train.Example()
    fill = theirs.features.feature
    fill["image"].float_list.value.extend(FEATURES["image"].ravel().tolist())
    fill["label"].int64_list.value.append(7)
    fill["long"].int64_list.value.extend(FEATURES["long"])
    fill["mixed"].float_list.value.extend([1, 2.5])
    fill["half"].float_list.value.append(0.5)
    fill["name"].bytes_list.value.append("höl".encode())
    fill["raw"].bytes_list.value.extend([b"", b"\xff\0", b"text"])
    fill["flags"].int64_list.value.extend([1, 0])
    fill["none"].SetInParent()
    fill["strings"].bytes_list.value.extend([b"a", b"bc"])
    assert encode(FEATURES) == theirs.SerializeToString(deterministic=True)


@pytest.mark.tensorflow
def test_tensorflow_parses_what_we_write(tf):
    spec = {"image": tf.io.FixedLenFeature([784], tf.float32), "label": tf.io.FixedLenFeature([1], tf.int64)}
    parsed = tf.io.parse_single_example(encode(FEATURES), spec)
    assert np.array_equal(parsed["image"], FEATURES["image"].ravel())
    assert parsed["label"].numpy() == [7]


def test_numbers_that_were_not_packed_are_read():
    floats = b"\x12\x0a\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40"
    ints = b"\x1a\x04\x08\x05\x08\x06"
    for feature, values in ((floats, [1.0, 2.0]), (ints, [5, 6])):
        entry = b"\x0a\x01a\x12" + bytes([len(feature)]) + feature
        part = b"\x0a" + bytes([len(entry)]) + entry
        assert decode(b"\x0a" + bytes([len(part)]) + part)["a"].tolist() == values  # type: ignore[union-attr]


INTS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)
FLOATS = st.lists(st.floats(width=32), min_size=1)
TEXTS = st.lists(st.binary(), min_size=1)


@given(st.dictionaries(st.text(max_size=5), st.one_of(INTS, FLOATS, TEXTS), max_size=5))
def test_what_is_encoded_is_decoded(features):
    found = decode(encode(features))
    assert found.keys() == features.keys()
    for name, values in features.items():
        assert all(
            a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(found[name], values, strict=True)
        )


@pytest.mark.parametrize(
    "value", [None, [1, None], ["a", 1], [[1], [1, 2]], {"a": 1}, 2**63, 2**64, np.uint64(2**63), 1e39, 1j]
)
def test_what_an_example_cannot_hold_is_refused_by_name(value):
    with pytest.raises(InputError, match="feature 'x'"):
        encode({"x": value})


def test_infinity_and_nan_are_floats():
    values = decode(encode({"x": [math.inf, math.nan, -math.inf]}))["x"]
    assert np.array_equal(values, [math.inf, math.nan, -math.inf], equal_nan=True)  # type: ignore[arg-type]


def test_a_cut_or_flipped_example_is_an_error_or_an_example_but_no_crash():
    whole = encode({"a": [1.5, 2.5], "b": 300, "c": "text"})
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            try:
                decode(damaged)
            except ElasticError as error:
                assert "tf.train.Example" in str(error)  # noqa: PT017 - decode may also succeed
