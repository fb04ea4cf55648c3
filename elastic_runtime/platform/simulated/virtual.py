"""Virtual time: an asyncio program runs as fast as it can compute, and its clock jumps to the next timer.

Nothing but timers may be waited for (no socket, no thread). When nothing is left to run and no timer is
set, the program would wait for ever: that is an error here, so that a simulation finds what hangs.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """Every task waits and no timer is set."""


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose clock is moved on by its selector."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self))
        self._clock_resolution = (
            1e-6  # asyncio adds it to the time; a smaller one is lost in a float after a year
        )

    def time(self) -> float:
        return self.now


class _Selector(selectors.SelectSelector):
    """Asked to wait until the next timer, it says at once that the time has passed."""

    def __init__(self, loop: _Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            waiting = [task.get_name() for task in asyncio.all_tasks(self._loop)]
            raise DeadlockError(f"{len(waiting)} tasks wait for ever: {', '.join(waiting[:5])}")
        self._loop.now += timeout
        return []


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time, which begins at 0; `asyncio` functions work as ever."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)
