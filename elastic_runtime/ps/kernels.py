"""The arithmetic of a parameter server: elementwise updates of float32 buffers, compiled and without the GIL.

Each kernel is Keras 3's own rule for one optimizer. `gradient` is a sum over pushes and `scale` makes it
their mean; `decay` is weight decay times learning rate. Scalars come as `np.float32`, or numba would
compute in double. Kernels are compiled at first use and kept in numba's cache.
"""

# ruff: noqa: PLR0917 - compiled functions take their arguments by position

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np


def _cache() -> pathlib.Path:
    """A folder for compiled kernels that can be written, in a container without a home too."""
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "elasticdl" / "numba"
    with contextlib.suppress(OSError, RuntimeError):
        home.mkdir(parents=True, exist_ok=True)
    spare = pathlib.Path(tempfile.gettempdir()) / f"elasticdl-numba-{os.getuid()}"
    return home if os.access(home, os.W_OK) else spare


if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(_cache())

import numba  # noqa: E402 - it reads the cache's place when it is imported


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled at its first call, and then kept in numba's cache."""
    result: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    return result


@compiled
def all_finite(values: np.ndarray) -> bool:
    """Whether no value is NaN or infinite."""
    bits, exponent = values.view(np.uint32), np.uint32(0x7F800000)
    bad = 0
    for i in range(bits.size):  # without a branch, so that it is vectorised
        bad += (bits[i] & exponent) == exponent
    return bad == 0


@compiled
def add(target: np.ndarray, values: np.ndarray, scale: np.float32) -> None:
    """Add `values * scale` to `target`."""
    for i in range(target.size):
        target[i] += values[i] * scale


@compiled
def sgd(
    weights: np.ndarray, gradient: np.ndarray, scale: np.float32, decay: np.float32, rate: np.float32
) -> None:
    """Plain gradient descent."""
    for i in range(weights.size):
        w = weights[i]
        weights[i] = w - w * decay - gradient[i] * scale * rate


@compiled
def momentum(
    weights: np.ndarray,
    gradient: np.ndarray,
    scale: np.float32,
    decay: np.float32,
    rate: np.float32,
    factor: np.float32,
    nesterov: bool,
    m: np.ndarray,
) -> None:
    """Gradient descent with momentum, Nesterov's if asked."""
    for i in range(weights.size):
        w = weights[i]
        step = gradient[i] * scale * rate
        m[i] = m[i] * factor - step
        weights[i] = w - w * decay + (m[i] * factor - step if nesterov else m[i])


@compiled
def adagrad(
    weights: np.ndarray,
    gradient: np.ndarray,
    scale: np.float32,
    decay: np.float32,
    rate: np.float32,
    epsilon: np.float32,
    accumulator: np.ndarray,
) -> None:
    """Adagrad."""
    for i in range(weights.size):
        w, g = weights[i], gradient[i] * scale
        accumulator[i] += g * g
        weights[i] = w - w * decay - rate * g / np.sqrt(accumulator[i] + epsilon)


@compiled
def adam(
    weights: np.ndarray,
    gradient: np.ndarray,
    scale: np.float32,
    decay: np.float32,
    alpha: np.float32,
    take_1: np.float32,
    take_2: np.float32,
    epsilon: np.float32,
    m: np.ndarray,
    v: np.ndarray,
) -> None:
    """Adam; `alpha` is the rate with bias correction, `take_*` how much of the new a moment takes."""
    scale, decay, alpha, epsilon = (
        np.float32(scale),
        np.float32(decay),
        np.float32(alpha),
        np.float32(epsilon),
    )
    for i in range(weights.size):
        w, g = weights[i], gradient[i] * scale
        m[i] += (g - m[i]) * take_1
        v[i] += (g * g - v[i]) * take_2
        weights[i] = w - w * decay - m[i] * alpha / (np.sqrt(v[i]) + epsilon)


@compiled
def amsgrad(
    weights: np.ndarray,
    gradient: np.ndarray,
    scale: np.float32,
    decay: np.float32,
    alpha: np.float32,
    take_1: np.float32,
    take_2: np.float32,
    epsilon: np.float32,
    m: np.ndarray,
    v: np.ndarray,
    most: np.ndarray,
) -> None:
    """Adam that divides by the largest second moment so far."""
    scale, decay, alpha, epsilon = (
        np.float32(scale),
        np.float32(decay),
        np.float32(alpha),
        np.float32(epsilon),
    )
    for i in range(weights.size):
        w, g = weights[i], gradient[i] * scale
        m[i] += (g - m[i]) * take_1
        v[i] += (g * g - v[i]) * take_2
        most[i] = max(most[i], v[i])
        weights[i] = w - w * decay - m[i] * alpha / (np.sqrt(most[i]) + epsilon)


@compiled
def rmsprop(
    weights: np.ndarray,
    gradient: np.ndarray,
    scale: np.float32,
    decay: np.float32,
    rate: np.float32,
    keep: np.float32,
    take: np.float32,
    factor: np.float32,
    epsilon: np.float32,
    velocity: np.ndarray,
    m: np.ndarray,
    average: np.ndarray,
) -> None:
    """RMSprop; `m` is empty without momentum and `average` is empty unless centered."""
    for i in range(weights.size):
        w, g = weights[i], gradient[i] * scale
        velocity[i] = velocity[i] * keep + g * g * take
        spread = velocity[i] + epsilon
        if average.size:
            average[i] = average[i] * keep + g * take
            spread -= average[i] * average[i]
        step = rate * g / np.sqrt(spread)
        if m.size:
            m[i] = m[i] * factor + step
            step = m[i]
        weights[i] = w - w * decay - step
