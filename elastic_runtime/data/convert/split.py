"""Which part of the output a row goes to: by chance, the same for the same seed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from elastic_runtime.errors import InputError


@dataclass(frozen=True)
class Split:
    """Sub-folders of the output and the shares of the rows they get; one unnamed part is the output
    itself.
    """

    parts: tuple[str, ...] = ("",)
    shares: tuple[float, ...] = (1.0,)

    def draws(self, seed: int) -> Iterator[str]:
        """The part of each row in turn."""
        if len(self.parts) == 1:
            yield from itertools.repeat(self.parts[0])
        chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        while True:
            yield chance.choices(self.parts, self.shares)[0]


def parse_split(text: str) -> Split:
    """Read `train=0.9,test=0.1`."""
    if not text.strip():
        return Split()
    shares: dict[str, float] = {}
    for item in text.split(","):
        name, _, share = item.strip().partition("=")
        try:
            shares[name] = float(share)
        except ValueError:
            raise InputError(f"{item.strip()!r} is not name=share", where="split") from None
        if (
            not name.replace("-", "").replace("_", "").isalnum()
            or name.startswith("_")
            or not shares[name] > 0
        ):
            raise InputError(f"{item.strip()!r} is not a folder's name and a share above 0", where="split")
    if not math.isclose(sum(shares.values()), 1, abs_tol=1e-6):
        raise InputError(f"the shares add up to {sum(shares.values()):g}, not 1", where="split")
    return Split(tuple(shares), tuple(shares.values()))
