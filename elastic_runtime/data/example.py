"""`tf.train.Example` without TensorFlow: the same bytes, written and read by hand.

An example is a map from feature name to a list of bytes, of float32 or of int64. The wire form is small
enough to spell out, needs no generated messages (which would clash with TensorFlow's own in one process), and
lets an array of floats pass as one copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elastic_runtime.errors import ElasticError, InputError

Scalar: TypeAlias = bytes | str | int | float
Value: TypeAlias = Scalar | Sequence[Scalar] | npt.NDArray[Any]
Feature: TypeAlias = list[bytes] | npt.NDArray[np.float32] | npt.NDArray[np.int64]

_BYTES, _FLOATS, _INTS = 1, 2, 3  # field numbers of the lists in a Feature
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types


class ExampleError(ElasticError):
    """Bytes that are no `tf.train.Example`."""


def encode(features: Mapping[str, Value]) -> bytes:
    """The example of these features, arrays flattened. Names are sorted: equal features give equal bytes."""
    return _delimited(1, b"".join(_entry(name, features[name]) for name in sorted(features)))


def decode(data: bytes) -> dict[str, Feature]:
    """The features of an example: bytes as a list, numbers as an array of float32 or int64."""
    features: dict[str, Feature] = {}
    for part in _delimited_fields(data, 1):
        for entry in _delimited_fields(part, 1):
            name = b"".join(list(_delimited_fields(entry, 1))[-1:])
            try:
                features[name.decode()] = _feature(b"".join(_delimited_fields(entry, 2)))
            except UnicodeDecodeError:
                raise ExampleError(f"not a tf.train.Example: a feature's name is {name!r}") from None
    return features


def _entry(name: str, value: Value) -> bytes:
    try:
        return _delimited(1, _delimited(1, name.encode()) + _delimited(2, _encode_feature(value)))
    except (TypeError, ValueError) as error:
        raise InputError(f"no tf.train.Example can hold it: {error}", where=f"feature {name!r}") from error


def _encode_feature(value: Value) -> bytes:
    if isinstance(value, bytes | str):
        return _bytes_list([value])
    if not isinstance(value, np.ndarray):
        items = value if isinstance(value, Sequence) else [value]
        if not items:
            return b""  # nothing tells of what kind
        if any(isinstance(item, bytes | str) for item in items):
            return _bytes_list(items)
        value = np.asarray(items)
    if value.dtype.kind == "f":
        return _delimited(_FLOATS, _delimited(1, _float32(value).tobytes()))
    if value.dtype.kind in "biu":
        return _delimited(_INTS, _delimited(1, _varints(value)))
    if value.dtype.kind in "SUO":
        return _bytes_list(value.ravel().tolist())
    raise TypeError(f"its values are of type {value.dtype}")


def _bytes_list(items: Sequence[Any]) -> bytes:
    for item in items:
        if not isinstance(item, bytes | str):
            raise TypeError(f"{item!r} is no bytes or str")
    texts = (item.encode() if isinstance(item, str) else item for item in items)
    return _delimited(_BYTES, b"".join(_delimited(1, text) for text in texts))


def _float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        narrow = values.astype("<f4")
    if values.dtype.itemsize > 4 and (np.isinf(narrow) & ~np.isinf(values)).any():
        raise ValueError("a value is beyond float32")
    return narrow


def _varints(values: npt.NDArray[Any]) -> bytes:
    flat = values.ravel()
    if flat.size and flat.dtype.kind == "u" and int(flat.max()) > np.iinfo(np.int64).max:
        raise ValueError("a value is beyond int64")
    if flat.size and flat.min() >= 0 and flat.max() < 0x80:
        return flat.astype(np.uint8).tobytes()
    return b"".join(_varint(int(value) & 0xFFFFFFFFFFFFFFFF) for value in flat)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _delimited(field: int, payload: bytes) -> bytes:
    return bytes((field << 3 | _DELIMITED,)) + _varint(len(payload)) + payload


def _feature(data: bytes) -> Feature:
    kind, payload = 0, b""
    for field, wire, value in _fields(data):
        if wire == _DELIMITED and field in (_BYTES, _FLOATS, _INTS):
            payload = payload + value if field == kind else value  # one message after another is both merged
            kind = field
    if kind == _FLOATS:
        return np.frombuffer(b"".join(_float_parts(payload)), dtype="<f4")
    if kind == _INTS:
        return np.array(list(_ints(payload)), dtype=np.uint64).view(np.int64)
    return list(_delimited_fields(payload, 1))


def _float_parts(payload: bytes) -> Iterator[bytes]:
    for field, wire, value in _fields(payload):
        if field == 1 and wire in (_DELIMITED, _FIXED32):
            if len(value) % 4:
                raise ExampleError("not a tf.train.Example: a list of floats is cut off")
            yield value


def _ints(payload: bytes) -> Iterator[int]:
    for field, wire, value in _fields(payload):
        if field == 1 and wire == _VARINT:
            yield _read_varint(value, 0)[0]
        elif field == 1 and wire == _DELIMITED:
            at = 0
            while at < len(value):
                number, at = _read_varint(value, at)
                yield number


def _delimited_fields(data: bytes, number: int) -> Iterator[bytes]:
    return (value for field, wire, value in _fields(data) if field == number and wire == _DELIMITED)


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Each field's number, wire type and bytes, in order."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        field, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            end = _read_varint(data, at)[1]
        elif wire == _DELIMITED:
            size, at = _read_varint(data, at)
            end = at + size
        elif wire in (_FIXED32, _FIXED64):
            end = at + (4 if wire == _FIXED32 else 8)
        else:
            raise ExampleError(f"not a tf.train.Example: wire type {wire}")
        if not field or end > len(data):
            raise ExampleError("not a tf.train.Example: a field is cut off")
        yield field, wire, data[at:end]
        at = end


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[at : at + 10]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + shift // 7
    raise ExampleError("not a tf.train.Example: a number is cut off")
