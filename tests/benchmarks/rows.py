"""One line of a benchmark's result, whatever was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass
class Row:
    """Our figure and the one it is held against, measured in the same run."""

    name: str
    ours: float
    theirs: float | None
    unit: str
    bar: str
    better: Literal["higher", "lower"]
