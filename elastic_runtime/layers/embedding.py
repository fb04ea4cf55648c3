"""The old ElasticDL's Embedding layer: Keras' own where it can be, so that the exported model is plain Keras.

It differs from Keras' in the order of its arguments and in `combiner`, which makes one vector of all ids of a
row, given as a dense or a sparse tensor.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

_COMBINERS = ("mean", "sum", "sqrtn")


def Embedding(  # noqa: N802, PLR0917 - called as the class it was
    output_dim: int,
    input_dim: int | None = None,
    embeddings_initializer: Any = "uniform",
    mask_zero: bool = False,
    input_length: int | None = None,  # noqa: ARG001 - Keras needs it no longer
    combiner: str | None = None,
    **kwargs: Any,
) -> keras.layers.Layer:
    """From ids (batch, length) to vectors (batch, length, output_dim), or (batch, output_dim) if combined."""
    if not input_dim:
        raise ValueError("Embedding needs input_dim, the number of different ids")
    if combiner is None:
        return keras.layers.Embedding(
            input_dim, output_dim, embeddings_initializer, mask_zero=mask_zero, **kwargs
        )
    if combiner not in _COMBINERS or mask_zero:
        raise ValueError(f"combiner must be {' or '.join(_COMBINERS)}, without mask_zero, got {combiner!r}")
    return CombinedEmbedding(input_dim, output_dim, embeddings_initializer, combiner=combiner, **kwargs)


@keras.saving.register_keras_serializable("elasticdl")
class CombinedEmbedding(keras.layers.Embedding):  # type: ignore[misc]
    """The mean, sum, or sum over the square root of the number, of the vectors of a row's ids."""

    def __init__(self, *args: Any, combiner: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.combiner = combiner

    def call(self, inputs: Any) -> tf.Tensor:
        """One vector a row; zeros for a row without ids."""
        if not isinstance(inputs, tf.SparseTensor):
            vectors = super().call(inputs)
            count = tf.cast(tf.shape(vectors)[1], vectors.dtype)
            return tf.reduce_sum(vectors, axis=1) / self._divisor(count)
        ids = tf.cast(inputs.values, tf.int64)
        rows, count = inputs.indices[:, 0], tf.cast(inputs.dense_shape[0], tf.int32)
        vectors = tf.gather(tf.convert_to_tensor(self.embeddings), ids)
        sums = tf.math.unsorted_segment_sum(vectors, rows, count)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(rows, vectors.dtype), rows, count)
        return sums / self._divisor(tf.maximum(counts, 1))[:, None]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The length is gone."""
        return (input_shape[0], self.output_dim)

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        return dict(super().get_config(), combiner=self.combiner)

    def _divisor(self, counts: tf.Tensor) -> tf.Tensor:
        divisors = {"sum": tf.ones_like, "mean": tf.identity, "sqrtn": tf.sqrt}
        return divisors[self.combiner](counts)
