"""Which priority class each worker gets.

A fraction marks that part of the workers `high` and the rest `low`, so that preemption, which may take every
low worker, never leaves a job without any. The high ones are taken from both ends of the index range in turn.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from elastic_runtime.errors import InputError

_NUMBER = re.compile(r"[+-]?[0-9.]+")
_CLASS = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class WorkerPriority:
    """One class for all workers, or the fraction of them that is `high`."""

    class_name: str = ""
    high: Fraction | None = None

    def priority_of(self, index: int, workers: int) -> str:
        """The priority class of worker `index` of `workers`; empty means the cluster's default."""
        if self.high is None:
            return self.class_name
        marked = math.ceil(workers * self.high)
        from_the_front, from_the_back = (marked + 1) // 2, marked // 2
        is_high = index < from_the_front or workers - from_the_back <= index < workers
        return "high" if is_high else "low"

    def of_others(self, workers: int) -> str:
        """The class of master and parameter servers if the master is given none: that of the first worker.

        Where they were less urgent than workers, these would take their place in a full cluster, and then
        wait for them. Workers that are `low` are less urgent than what has no class.
        """
        first = self.priority_of(0, workers)
        return "" if first == "low" else first


def parse_worker_priority(text: str) -> WorkerPriority:
    """`0.5` (once written `high=0.5`), `high`, `low`, or the name of any priority class."""
    if text.startswith("high="):
        return WorkerPriority(high=_fraction(text.removeprefix("high=")))
    if _NUMBER.fullmatch(text):
        return WorkerPriority(high=_fraction(text))
    return WorkerPriority(class_name=parse_priority_class(text))


def parse_priority_class(text: str) -> str:
    """The name of a PriorityClass, as Kubernetes would accept it."""
    if text and not _CLASS.fullmatch(text):
        raise InputError(
            f"{text!r} cannot be the name of a PriorityClass", remedy="lower case, digits, '-' and '.'"
        )
    return text


def _fraction(text: str) -> Fraction:
    try:
        fraction = Fraction(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None
    if not 0 <= fraction <= 1:
        raise InputError(
            f"the fraction {text} is not between 0 and 1", remedy="0.5 makes half of the workers high"
        )
    return fraction
