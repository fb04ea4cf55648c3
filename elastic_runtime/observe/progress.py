"""How fast a job goes, how long it will still take, and how much of its time counted; time is an argument.

Goodput is the share of wall time that went into training which counts:

    training seconds / wall seconds  x  records done / (records done + records trained again)

where training seconds are those in which at least one shard was being trained. Waiting for pods, start-up,
recovery and the time between two masters lower the first factor, work lost with a pod the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(slots=True)
class Progress:
    """The job's pace. `started` and `training_seconds` are carried over by a master that takes a job over."""

    started: float
    total: int
    smoothing: float = 20.0
    training_seconds: float = 0.0
    done: int = 0
    _seen: float | None = field(default=None, init=False)
    _training: bool = field(default=False, init=False)
    _records: float = field(default=0.0, init=False)
    _seconds: float = field(default=0.0, init=False)

    def update(self, now: float, *, done: int, training: bool) -> None:
        """Say how many records are done and whether any shard is being trained from now on.

        A count that fell (the model went back to a checkpoint) is a new beginning, not a negative rate.
        """
        if self._seen is not None and now > self._seen:
            passed = now - self._seen
            if self._training:
                self.training_seconds += passed
            self._records, self._seconds = self._aged(passed, max(0, done - self.done))
        self._seen = now if self._seen is None else max(self._seen, now)
        self._training = training
        self.done = done

    def records_per_second(self, now: float) -> float:
        """Records a second of late; sinks while nothing is reported."""
        if self._seen is None:
            return 0.0
        silence = now - self._seen
        records, seconds = self._aged(silence, 0) if silence > 0 else (self._records, self._seconds)
        return records / seconds if seconds > 0 else 0.0

    def seconds_left(self, now: float) -> float | None:
        """Seconds until all records are done at the present pace; None when that cannot be said."""
        left = self.total - self.done
        if left <= 0:
            return 0.0 if self.total > 0 else None
        pace = self.records_per_second(now)
        return left / pace if pace > 0 and math.isfinite(left / pace) else None

    def _aged(self, passed: float, new: int) -> tuple[float, float]:
        old = math.exp(-passed / self.smoothing)
        weight = self.smoothing * (1 - old)
        return self._records * old + new / passed * weight, self._seconds * old + weight


def goodput(*, training_seconds: float, wall_seconds: float, done: int, retrained: int) -> float:
    """The share of wall time that went into training which counts, from 0 to 1."""
    if wall_seconds <= 0 or done <= 0:
        return 0.0
    return min(1.0, training_seconds / wall_seconds) * done / (done + max(0, retrained))
