"""Numpy arrays as `Tensor` messages: shape, type and little-endian bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from elastic_runtime.rpc.master_pb2 import Tensor

Array = np.ndarray[Any, Any]


def to_tensor(value: Array) -> Tensor:
    """The message of an array."""
    array = np.asarray(value)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return Tensor(shape=little.shape, dtype=little.dtype.str, data=little.tobytes())


def from_tensor(tensor: Tensor) -> Array:
    """The array of a message; read-only."""
    return np.frombuffer(tensor.data, np.dtype(tensor.dtype)).reshape(tuple(tensor.shape))
