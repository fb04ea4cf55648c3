"""Preprocessing layers of the old ElasticDL that Keras itself has no like of; for all others use Keras' own.

They hold no weights. Put them into `feed`, or into the model if whoever loads the exported model may need
this package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("elasticdl")
class LogRound(keras.layers.Layer):  # type: ignore[misc]
    """The rounded logarithm (base e unless told) as an id below `num_bins`, or else `default_value`."""

    def __init__(
        self, num_bins: int, default_value: int = 0, base: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_bins, self.default_value, self.base = num_bins, default_value, base

    def call(self, inputs: Any) -> tf.Tensor:
        """Ids, int64."""
        logarithm = tf.math.log(tf.cast(inputs, tf.float32)) / math.log(self.base or math.e)
        return _bounded(logarithm, self.num_bins, self.default_value)

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        own = {"num_bins": self.num_bins, "default_value": self.default_value, "base": self.base}
        return dict(super().get_config(), **own)


@keras.saving.register_keras_serializable("elasticdl")
class RoundIdentity(keras.layers.Layer):  # type: ignore[misc]
    """The rounded number as an id below `num_buckets`, or else `default_value`."""

    def __init__(self, num_buckets: int, default_value: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_buckets, self.default_value = num_buckets, default_value

    def call(self, inputs: Any) -> tf.Tensor:
        """Ids, int64."""
        return _bounded(tf.cast(inputs, tf.float32), self.num_buckets, self.default_value)

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        return dict(super().get_config(), num_buckets=self.num_buckets, default_value=self.default_value)


@keras.saving.register_keras_serializable("elasticdl")
class ToNumber(keras.layers.Layer):  # type: ignore[misc]
    """Strings parsed as numbers of `out_type`; an empty string is `default_value`."""

    def __init__(self, out_type: Any, default_value: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.out_type, self.default_value = tf.as_dtype(out_type), default_value

    def call(self, inputs: Any) -> tf.Tensor:
        """Numbers, of the inputs' shape."""
        filled = tf.where(tf.equal(inputs, ""), str(self.default_value), inputs)
        parsed = tf.strings.to_number(filled, tf.float64)
        return tf.cast(parsed, self.out_type)

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        own = {"out_type": self.out_type.name, "default_value": self.default_value}
        return dict(super().get_config(), **own)


@keras.saving.register_keras_serializable("elasticdl")
class ConcatenateWithOffset(keras.layers.Layer):  # type: ignore[misc]
    """Shifts each input's ids by its offset and concatenates them, so that features share an embedding."""

    def __init__(self, offsets: Sequence[int], axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.offsets, self.axis = list(offsets), axis

    def call(self, inputs: Sequence[Any]) -> Any:
        """Dense, ragged or sparse, as the inputs are."""
        if len(inputs) != len(self.offsets):
            raise ValueError(f"{len(inputs)} inputs for {len(self.offsets)} offsets")
        shifted = [_shifted(ids, offset) for ids, offset in zip(inputs, self.offsets, strict=True)]
        if isinstance(shifted[0], tf.SparseTensor):
            return tf.sparse.concat(self.axis, shifted)
        return tf.concat(shifted, self.axis)

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        return dict(super().get_config(), offsets=self.offsets, axis=self.axis)


def _shifted(ids: Any, offset: int) -> Any:
    if isinstance(ids, tf.SparseTensor):
        return tf.SparseTensor(ids.indices, ids.values + tf.cast(offset, ids.dtype), ids.dense_shape)
    return ids + tf.cast(offset, ids.dtype)


def _bounded(numbers: tf.Tensor, count: int, default: int) -> tf.Tensor:
    rounded = tf.round(numbers)
    inside = (rounded >= 0) & (rounded < count)
    return tf.cast(tf.where(inside, rounded, tf.cast(default, rounded.dtype)), tf.int64)
