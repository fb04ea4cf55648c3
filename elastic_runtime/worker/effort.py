"""How much this worker has worked: the time and the records of the steps it finished.

To a step belongs the time in which its minibatch was read. An attempt that came to nothing, and what the
worker waited for before the next, do not count: by that a standstill is told from a long step.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Effort:
    """Belongs to the main thread; both counts only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.seconds, self.records = 0.0, 0
        self._left = 0
        self._mark = self._reading = 0.0
        self._pace: float | None = None  # seconds a record, in the fastest step of the work in hand

    def begin(self, records: int) -> None:
        """A piece of work of so many records is taken in hand."""
        self._left, self._mark, self._reading, self._pace = records, self._clock(), 0.0, None

    def read(self) -> None:
        """The next minibatch is there."""
        self._reading = self._clock() - self._mark

    def run(self, step: Callable[[], None], records: int) -> None:
        """Attempt the step; if it does not raise, it is finished."""
        began = self._clock()
        step()
        self._mark = self._clock()
        taken = self._reading + self._mark - began
        self.seconds += taken
        self._reading, pace = 0.0, taken / max(1, records)
        self._pace = pace if self._pace is None else min(pace, self._pace)
        self._add(min(records, self._left))

    def seconds_left(self) -> float | None:
        """How long the rest of the work takes at the pace of its fastest step; None before its first."""
        return None if self._pace is None else self._left * self._pace

    def end(self) -> None:
        """The work is done: all of its records, whatever a `feed` made of them."""
        self._add(self._left)

    def _add(self, records: int) -> None:
        self.records += records
        self._left -= records
