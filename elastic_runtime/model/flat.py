"""A Keras model as the two flat buffers of `elastic_runtime.rpc.layout`, and its optimizer's slots likewise.

Everything that leaves a worker - pulls, pushes, checkpoints, snapshots - is one flat float32 array; this is
the only place that knows how Keras variables lie in it. Reading, assigning and flattening gradients are
compiled once per model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from elastic_runtime.errors import ElasticError
from elastic_runtime.rpc.layout import Layout, Variable


class Flat(NamedTuple):
    """The values of a model at one moment: trained weights, and state such as batch-norm statistics."""

    weights: np.ndarray
    state: np.ndarray


class _Group:
    """Some Keras variables and the flat buffer they fill, in order."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self.variables = list(variables)
        self.size = sum(int(np.prod(v.shape, dtype=np.int64)) for v in self.variables)
        self._read = tf.function(self.now, autograph=False)
        self._assign = tf.function(
            self._traced_assign, autograph=False, input_signature=[tf.TensorSpec([self.size], tf.float32)]
        )

    def now(self) -> tf.Tensor:
        """The present values as a tensor; to be traced."""
        return _joined([tf.convert_to_tensor(v.value) for v in self.variables])

    def read(self) -> np.ndarray:
        """A copy of the present values."""
        return np.array(self._read()) if self.variables else np.empty(0, np.float32)

    def assign(self, values: np.ndarray) -> None:
        """Set every variable from the buffer."""
        if values.shape != (self.size,):
            raise ValueError(f"a buffer of shape {values.shape} for {self.size} values")
        if self.variables:
            self._assign(tf.convert_to_tensor(values, tf.float32))

    def _traced_assign(self, values: tf.Tensor) -> None:
        sizes = [int(np.prod(v.shape, dtype=np.int64)) for v in self.variables]
        for variable, piece in zip(self.variables, tf.split(values, sizes), strict=True):
            dtype = tf.as_dtype(variable.dtype)
            whole = piece if dtype.is_floating else tf.round(piece)
            variable.assign(tf.cast(tf.reshape(whole, variable.shape), dtype))


class FlatModel:
    """A built Keras model as flat buffers.

    Whole-number state (counters) is rounded when assigned, for the sum of two workers' changes need not be
    whole; float32 holds such numbers exactly up to 16 million.
    """

    def __init__(self, model: keras.Model) -> None:
        weights = list(model.trainable_weights)
        state = [v for v in model.non_trainable_weights if _is_number(v)]
        names = _unique_names([*weights, *state])
        self.layout = Layout(
            weights=_described(weights, names[: len(weights)]), state=_described(state, names[len(weights) :])
        )
        self._weights, self._state = _Group(weights), _Group(state)

    def read(self) -> Flat:
        """A copy of the present values."""
        return Flat(self._weights.read(), self._state.read())

    def assign(self, weights: np.ndarray, state: np.ndarray) -> None:
        """Set all variables."""
        self._weights.assign(weights)
        self._state.assign(state)

    def state_now(self) -> tf.Tensor:
        """The present state as one flat tensor; to be called inside a `tf.function`."""
        return self._state.now()

    @property
    def weights(self) -> list[Any]:
        """The trainable Keras variables in layout order."""
        return self._weights.variables

    def flatten(self, gradients: Sequence[Any]) -> tf.Tensor:
        """The gradients of `weights` as one flat tensor; to be called inside a `tf.function`.

        A gradient that is None (the loss does not depend on the variable) counts as zeros.
        """
        pairs = zip(gradients, self.weights, strict=True)
        return _joined([tf.zeros(v.shape) if g is None else tf.convert_to_tensor(g) for g, v in pairs])


class Slots:
    """What an optimizer keeps beside each weight, as flat buffers by name (`momentum`, `velocity`, ...).

    Names and order are Keras' own, which parameter servers use too, so a checkpoint of either can be restored
    by the other.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer, weights: Sequence[Any]) -> None:
        found: dict[str, list[Any]] = {}
        for weight in weights:
            for variable in optimizer.variables:
                prefix = f"{weight.path.replace('/', '_')}_"
                if variable.name.startswith(prefix) and variable.shape == weight.shape:
                    slot = found.setdefault(variable.name.removeprefix(prefix), [])
                    if all(variable is not other for other in slot):
                        slot.append(variable)
        self._groups = {name: _Group(slot) for name, slot in found.items() if len(slot) == len(weights)}

    def read(self) -> dict[str, np.ndarray]:
        """A copy of every slot."""
        return {name: group.read() for name, group in self._groups.items()}

    def assign(self, slots: Mapping[str, np.ndarray]) -> None:
        """Set every slot; all must be given."""
        missing = self._groups.keys() - slots.keys()
        if missing:
            what = f"the checkpoint holds no {', '.join(sorted(missing))} of the optimizer"
            raise ElasticError(what, remedy="it was written with another optimizer; use that one")
        for name, group in self._groups.items():
            group.assign(slots[name])


def _joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    flat = [tf.reshape(tf.cast(t, tf.float32), [-1]) for t in tensors]
    return tf.concat(flat, axis=0) if flat else tf.zeros([0])


def _is_number(variable: Any) -> bool:
    dtype = tf.as_dtype(variable.dtype)
    return bool(dtype.is_floating or dtype.is_integer or dtype.is_bool)


def _described(variables: Sequence[Any], names: Sequence[str]) -> tuple[Variable, ...]:
    return tuple(
        Variable(name, tuple(int(n) for n in v.shape)) for v, name in zip(variables, names, strict=True)
    )


def _unique_names(variables: Sequence[Any]) -> list[str]:
    used: set[str] = set()
    names = []
    for variable in variables:
        name, number = variable.path, 1
        while name in used:
            name, number = f"{variable.path}_{number}", number + 1
        used.add(name)
        names.append(name)
    return names
