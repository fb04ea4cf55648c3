"""A job of AllReduce: who is in its newest world, and what has to be true of it at its end.

Workers say in their logs which world they have entered, with which rank; that is what is read here. A world
*trains* once all its members are in it and have finished a step there.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Run

from elastic_runtime.observe import events

SELDOM = "HOROVOD_CYCLE_TIME=5"
"""Milliseconds: to look for work in each of them, as is its default, costs whoever waits much of a core."""
SHARD = 64
"""Records of one: minibatches of 16, four in a shard, as the harness has it."""
_ENTERED = re.compile(r"world (\d+): rank (\d+) of (\d+), version (\d+)")
_LOSS = re.compile(r"world \d+ is no more|did not come together|a member left before this one")
_UNLIKE = re.compile(r"hold different weights|are not those of rank 0")


@dataclass(frozen=True, slots=True)
class Seat:
    """What a worker said when it entered a world."""

    worker: str
    world: int
    rank: int
    size: int
    version: int


class Together(Run):
    """One job, whose workers train in worlds."""

    envs = (SELDOM,)

    def __init__(self, folder: Path, data: Path, *options: str, model: str = "tiny") -> None:
        super().__init__(folder, data, "--distribution_strategy=AllreduceStrategy", *options, model=model)

    # Who trains with whom

    def said_by(self, worker: str) -> str:
        """A worker's log; empty if it has none yet."""
        try:
            return self.log(worker)
        except FileNotFoundError:
            return ""

    def entered(self, worker: str) -> list[Seat]:
        """The worlds that a worker has been in."""
        return [Seat(worker, *map(int, found)) for found in _ENTERED.findall(self.said_by(worker))]

    def workers(self) -> list[str]:
        """Those that run."""
        return [pod.removeprefix(f"elasticdl-{self.name}-") for pod in self.pids()]

    def seats(self) -> list[Seat]:
        """Of the living workers in the newest world that any of them has entered, in the order of ranks."""
        newest = [seats[-1] for worker in self.workers() if (seats := self.entered(worker))]
        world = max((seat.world for seat in newest), default=0)
        return sorted((seat for seat in newest if seat.world == world), key=lambda seat: seat.rank)

    def ranks(self) -> list[str]:
        """The workers of the newest world in the order of their ranks."""
        return [seat.worker for seat in self.seats()]

    def until_together(self, *workers: str, size: int = 1, after: int = 0) -> list[str]:
        """Wait until a world newer than `after` trains, `size` workers or more and these in it; its ranks."""

        def trains() -> list[str]:
            seats = self.seats()
            ranks = [seat.worker for seat in seats]
            whole = seats and seats[0].size == len(seats) >= size and seats[0].world > after
            moved = whole and self.status().version > seats[0].version
            return ranks if moved and set(workers) <= set(ranks) else []

        what = f"{', '.join(workers) or size} in a world after {after} that trains"
        ranks: list[str] = self.until(trains, what)
        return ranks

    def until_survived(self, lost: list[str], number: signal.Signals = signal.SIGKILL) -> list[str]:
        """Strike these, and wait until the others train on, in the order they had; the ranks then."""
        seats = self.seats()
        left = [seat.worker for seat in seats if seat.worker not in lost]
        self.strike(*lost, number=number)
        ranks = self.until_together(*left, after=seats[0].world)
        assert ranks[: len(left)] == left, "those that stay keep their order, whoever joins comes behind"
        return ranks

    def until_says(self, worker: str, pattern: str) -> None:
        """Wait for a line of a worker's."""
        self.until(lambda: re.search(pattern, self.said_by(worker)), f"{worker} says {pattern!r}")

    def until_steps(self, count: int = 1) -> int:
        """Wait until so many steps more are done; the version then."""
        at = self.status().version + count
        self.until(lambda: self.status().version >= at, f"version {at}")
        return at

    # What befalls them

    def strike(self, *workers: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal these workers with nothing in between: all within a fraction of a millisecond."""
        pids = self.pids()
        for pid in [pids[f"elasticdl-{self.name}-{worker}"] for worker in workers]:
            os.kill(pid, number)

    def stop(self, *workers: str) -> None:
        """SIGSTOP."""
        self.strike(*workers, number=signal.SIGSTOP)

    def go_on(self, *workers: str) -> None:
        """SIGCONT."""
        self.strike(*workers, number=signal.SIGCONT)

    def losses_met(self, *workers: str) -> list[str]:
        """How these workers say that a world of theirs broke."""
        return [line for worker in workers for line in _LOSS.findall(self.said_by(worker))]

    # What has to be true at the end

    def assert_trained_right(self, *, losses: int, went_back: bool | None = False) -> dict[str, Any]:
        """What must hold of any job; and no more is trained again than a shard for each of `losses`.

        A master killed with the word of a loss not yet in its journal is a loss, too: its successor finds the
        same shard lost, and tells and counts it again; killed between line and record, it leaves the line
        alone. The model goes back only if nobody was left who held it, which may be (None) or has to be.
        """
        self.pace(0)
        summary = self.assert_right_end()
        logs = [path.read_text(errors="replace") for path in (self.folder / "logs").glob("*.log")]
        assert not [said[0] for log in [self.text(), *logs] if (said := _UNLIKE.search(log))]

        worlds = [int(number) for number in re.findall(r"\] world (\d+): ", self.text())]
        assert worlds == sorted(set(worlds)), "each world is another, also under the next master"

        requeued = [event.records for event in self.events(events.ShardRequeued)]
        gone_back = [event.records_again for event in self.events(events.ModelRestored)]
        assert summary["records_retrained"] == sum(requeued) + sum(gone_back), "all of it is told"
        assert 0 <= self.text().count("go back to the queue") - len(requeued) <= losses
        assert sum(requeued) <= losses * SHARD
        assert went_back in (bool(gone_back), None), self.report()
        return summary
