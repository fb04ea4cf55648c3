"""How fast a job goes, how long it will still take, and how much of its time counted; time is an argument.

Goodput is the share of wall time that went into training which counts:

    training seconds / wall seconds  x  records done / (records done + records trained again)

where training seconds are those in which at least one worker was in a step that it finished, as the workers
tell. Waiting for pods, start-up, recovery, standstills and the time between two masters lower the first
factor, work lost with a pod the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

PACE_SECONDS = 3.0
"""The pace is that of the last few seconds, so that a standstill shows."""
STEPS = 3.0
"""Or of so many reports, where steps are long: the time between two of them is no standstill."""


@dataclass(slots=True)
class _Rate:
    """So many in so many seconds, of which the older ones count less and less."""

    amount: float = 0.0
    seconds: float = 0.0

    def after(self, passed: float, new: float, smoothing: float) -> _Rate:
        """The same, so much time and so many more later."""
        old = math.exp(-passed / smoothing)
        weight = smoothing * (1 - old)
        return _Rate(self.amount * old + new / passed * weight, self.seconds * old + weight)

    def a_second(self) -> float:
        """How many in one."""
        return self.amount / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class Progress:
    """The job's pace. `started` and `training_seconds` are carried over by a master that takes a job over."""

    started: float
    total: int
    smoothing: float = 20.0
    training_seconds: float = 0.0
    done: int = 0
    _seen: float | None = field(default=None, init=False)
    _known: float = field(default=-math.inf, init=False)  # up to when it is known who was in a step
    _told: float = field(default=0.0, init=False)  # seconds of steps in a worker's newest report
    _new: int = field(default=0, init=False)  # records trained since the last `update`
    _pace: _Rate = field(default_factory=_Rate, init=False)  # of records as they are trained
    _gain: _Rate = field(default_factory=_Rate, init=False)  # of records as they are done

    def worked(self, now: float, *, seconds: float, records: int) -> None:
        """A worker trained so many more records, in steps that took so many seconds up to now."""
        if seconds > 0:
            self.training_seconds += max(0.0, now - max(self._known, now - seconds))
            self._told = seconds
        self._known = max(self._known, now)
        self._new += records

    def update(self, now: float, *, done: int) -> None:
        """Say how many records are done.

        A count that fell (the model went back to a checkpoint) is a new beginning, not a negative rate.
        """
        if self._seen is not None and now > self._seen:
            passed = now - self._seen
            self._pace = self._pace.after(passed, self._new, self._pace_smoothing)
            self._gain = self._gain.after(passed, max(0, done - self.done), self.smoothing)
            self._new = 0
        self._seen = now if self._seen is None else max(self._seen, now)
        self.done = done

    def records_per_second(self, now: float) -> float:
        """Records trained in a second of late; sinks at once when nothing is trained."""
        if self._seen is None:
            return 0.0
        return self._since(now, self._pace, self._pace_smoothing).a_second()

    def seconds_left(self, now: float) -> float | None:
        """Seconds until all records are done at the present pace; None when that cannot be said."""
        left = self.total - self.done
        if left <= 0:
            return 0.0 if self.total > 0 else None
        gain = self._since(now, self._gain, self.smoothing).a_second()
        return left / gain if gain > 0 and math.isfinite(left / gain) else None

    @property
    def _pace_smoothing(self) -> float:
        return max(PACE_SECONDS, STEPS * self._told)

    def _since(self, now: float, rate: _Rate, smoothing: float) -> _Rate:
        silence = 0.0 if self._seen is None else now - self._seen
        return rate.after(silence, 0, smoothing) if silence > 0 else rate


def goodput(*, training_seconds: float, wall_seconds: float, done: int, retrained: int) -> float:
    """The share of wall time that went into training which counts, from 0 to 1."""
    if wall_seconds <= 0 or done <= 0:
        return 0.0
    return min(1.0, training_seconds / wall_seconds) * done / (done + max(0, retrained))
