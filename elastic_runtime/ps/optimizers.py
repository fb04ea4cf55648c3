"""Optimizers a parameter server can run: each is Keras 3's own rule over a part of one flat float32 buffer.

`from_config` turns a plain mapping, `{"name": "Adam", "beta_1": 0.9, ...}` as Keras' `get_config` gives it,
into a frozen dataclass, and refuses by name what it cannot do. The learning rate is no part of it: it travels
with each push.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.ps import kernels

_NONE = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Update:
    """One application of gradients: its number (from 1), the rate, and what to scale them by."""

    step: int
    learning_rate: float
    scale: float = 1.0


class Optimizer(Protocol):
    """Changes weights in place by a gradient, keeping `slots` beside them."""

    @property
    def slots(self) -> Mapping[str, float]:
        """The buffers kept beside the weights, with the value each begins with."""
        ...

    def apply(
        self, update: Update, weights: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray]
    ) -> None:
        """One update of these weights; all arrays are of one length."""
        ...


@dataclass(frozen=True)
class SGD:
    """Gradient descent, with momentum or Nesterov's momentum."""

    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    @property
    def slots(self) -> Mapping[str, float]:
        """The momentum, if there is any."""
        return {"momentum": 0.0} if self.momentum else {}

    def apply(
        self, update: Update, weights: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray]
    ) -> None:
        """One update of these weights."""
        rate = update.learning_rate
        numbers = _floats(update.scale, self.weight_decay * rate, rate)
        if self.momentum:
            factor = np.float32(self.momentum)
            kernels.momentum(weights, gradient, *numbers, factor, self.nesterov, slots["momentum"])
        else:
            kernels.sgd(weights, gradient, *numbers)


@dataclass(frozen=True)
class Adagrad:
    """Adagrad."""

    initial_accumulator_value: float = 0.1
    epsilon: float = 1e-7
    weight_decay: float = 0.0

    @property
    def slots(self) -> Mapping[str, float]:
        """The sum of squared gradients."""
        return {"accumulator": self.initial_accumulator_value}

    def apply(
        self, update: Update, weights: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray]
    ) -> None:
        """One update of these weights."""
        rate = update.learning_rate
        numbers = _floats(update.scale, self.weight_decay * rate, rate, self.epsilon)
        kernels.adagrad(weights, gradient, *numbers, slots["accumulator"])


@dataclass(frozen=True)
class Adam:
    """Adam and AMSGrad."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    amsgrad: bool = False
    weight_decay: float = 0.0

    @property
    def slots(self) -> Mapping[str, float]:
        """The two moments, and the largest second moment for AMSGrad."""
        return {"momentum": 0.0, "velocity": 0.0} | ({"velocity_hat": 0.0} if self.amsgrad else {})

    def apply(
        self, update: Update, weights: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray]
    ) -> None:
        """One update of these weights."""
        rate, decay = update.learning_rate, self.weight_decay * update.learning_rate
        alpha = rate * math.sqrt(1 - self.beta_2**update.step) / (1 - self.beta_1**update.step)
        numbers = _floats(update.scale, decay, alpha, 1 - self.beta_1, 1 - self.beta_2, self.epsilon)
        moments = (slots["momentum"], slots["velocity"])
        if self.amsgrad:
            kernels.amsgrad(weights, gradient, *numbers, *moments, slots["velocity_hat"])
        else:
            kernels.adam(weights, gradient, *numbers, *moments)


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""

    weight_decay: float = 0.004


@dataclass(frozen=True)
class RMSprop:
    """RMSprop, with momentum and centered if asked."""

    rho: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-7
    centered: bool = False
    weight_decay: float = 0.0

    @property
    def slots(self) -> Mapping[str, float]:
        """The mean square, and what momentum and centering need."""
        wanted = {"velocity": True, "momentum": self.momentum > 0, "average_gradient": self.centered}
        return {name: 0.0 for name, needed in wanted.items() if needed}

    def apply(
        self, update: Update, weights: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray]
    ) -> None:
        """One update of these weights."""
        rate, decay = update.learning_rate, self.weight_decay * update.learning_rate
        extra = (slots["velocity"], slots.get("momentum", _NONE), slots.get("average_gradient", _NONE))
        numbers = _floats(update.scale, decay, rate, self.rho, 1 - self.rho, self.momentum, self.epsilon)
        kernels.rmsprop(weights, gradient, *numbers, *extra)


_KNOWN: dict[str, type[SGD | Adagrad | Adam | RMSprop]] = {
    kind.__name__: kind for kind in (SGD, Adagrad, Adam, AdamW, RMSprop)
}
_WORKERS_DUTY = {
    "clipnorm": "clip gradients in the model's own step",
    "global_clipnorm": "clip gradients in the model's own step",
    "clipvalue": "clip gradients in the model's own step",
    "use_ema": "a moving average of the weights needs --distribution_strategy=Local",
    "loss_scale_factor": "train in float32",
    "gradient_accumulation_steps": "use --grads_to_wait",
}
_HARMLESS = {"name", "learning_rate", "ema_momentum", "ema_overwrite_frequency"}


def from_config(config: Mapping[str, object]) -> Optimizer:
    """The optimizer of this configuration; an `InputError` names whatever a parameter server cannot do."""
    name = str(config.get("name"))
    kind = {known.lower(): kind for known, kind in _KNOWN.items()}.get(name.lower())
    if kind is None:
        remedy = f"{nearest(name, _KNOWN)}, or --distribution_strategy=Local runs any Keras optimizer"
        raise InputError(f"parameter servers have no optimizer {name!r}", where="optimizer", remedy=remedy)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    options: dict[str, Any] = {}
    for option, value in config.items():
        if option in fields and value is not None:
            options[option] = _checked(f"{kind.__name__}({option}={value!r})", value, fields[option].default)
        elif option not in fields and option not in _HARMLESS and value not in (None, False):
            what = f"parameter servers cannot do {option}={value!r}"
            remedy = _WORKERS_DUTY.get(option) or nearest(option, fields)
            raise InputError(what, where=f"optimizer {kind.__name__}", remedy=remedy)
    return kind(**options)


def _floats(*values: float) -> tuple[np.float32, ...]:
    return tuple(map(np.float32, values))


def _checked(where: str, value: object, like: object) -> bool | float:
    if isinstance(like, bool):
        if isinstance(value, bool):
            return value
        raise InputError("must be true or false", where=where)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError("must be a number, not negative", where=where)
    return float(value)
