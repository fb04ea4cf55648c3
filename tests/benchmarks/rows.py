"""One line of a benchmark's result, whatever was measured, and whether it is good enough.

A bar such as `>= 2.0x` is about the ratio of our figure to the other, `<= 3 s` about ours alone. One without
a unit is about the ratio where there is another side, else about our figure. Words in brackets may follow;
`-` or nothing is no bar. A row may be without a figure: nobody has measured what its bar is about.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Literal

_BAR = re.compile(r"(?P<sign>[<>]=?) (?P<value>\d+(\.\d+)?)(?P<unit>x| [^ (]+)?( \(.+\))?")
_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_NO_BAR = ("", "-")


@dataclass
class Row:
    """Our figure and the one it is held against, measured in the same run."""

    name: str
    ours: float | None
    theirs: float | None
    unit: str
    bar: str
    better: Literal["higher", "lower"]

    def __post_init__(self) -> None:
        if self.bar in _NO_BAR:
            return
        if not (bar := _BAR.fullmatch(self.bar)):
            raise ValueError(f"{self.name}: not a bar: {self.bar!r}")
        if (self.better == "higher") != (">" in bar["sign"]):
            raise ValueError(f"{self.name}: the bar {self.bar} contradicts {self.better!r} is better")
        if bar["unit"] == "x" and not self.theirs:
            raise ValueError(f"{self.name}: the bar {self.bar} needs another side")

    @property
    def ratio(self) -> float | None:
        """Our figure over theirs."""
        return self.ours / self.theirs if self.theirs and self.ours is not None else None

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None without one, or without a figure."""
        if self.bar in _NO_BAR or self.ours is None:
            return None
        bar = _BAR.fullmatch(self.bar)
        assert bar is not None
        figure = self.ours if self.ratio is None or bar["unit"] not in (None, "x") else self.ratio
        return bool(_COMPARE[bar["sign"]](figure, float(bar["value"])))
