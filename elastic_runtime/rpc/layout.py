"""How a model's variables lie in one flat float32 buffer.

Parameter servers, workers and checkpoints all speak of a model as two flat buffers: `weights` (trained by
gradients) and `state` (batch-norm statistics and the like, changed by addition). The layout names each
variable's place in them. A parameter server holds an equal byte range of both, so the load is even whatever
the variables' sizes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of the model: its unique name and shape."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Layout:
    """The order in which variables fill the two flat buffers, without gaps."""

    weights: tuple[Variable, ...]
    state: tuple[Variable, ...] = ()

    @property
    def weight_count(self) -> int:
        """Length of the weights buffer."""
        return sum(v.size for v in self.weights)

    @property
    def state_count(self) -> int:
        """Length of the state buffer."""
        return sum(v.size for v in self.state)

    @property
    def digest(self) -> str:
        """Equal for equal layouts; two processes compare it before they exchange a byte."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """The layout as text, for checkpoints and the wire."""
        return json.dumps(
            {
                "weights": [[v.name, list(v.shape)] for v in self.weights],
                "state": [[v.name, list(v.shape)] for v in self.state],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """The inverse of `to_json`."""
        raw = json.loads(text)

        def group(rows: Sequence[tuple[str, list[int]]]) -> tuple[Variable, ...]:
            return tuple(Variable(name, tuple(shape)) for name, shape in rows)

        return cls(weights=group(raw["weights"]), state=group(raw["state"]))


def part(count: int, index: int, parts: int) -> tuple[int, int]:
    """The range [start, end) of a buffer of `count` values that parameter server `index` of `parts` holds."""
    return count * index // parts, count * (index + 1) // parts
