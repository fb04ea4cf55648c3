"""How long a job stands still when a process of it is killed with -9: first workers, then its master.

One job of a tiny model, with 1 parameter server and 2 workers that wait for each other's gradients
(`grads_to_wait=2`): a lost worker holds up the other until it is noticed. Beside our figures stand, of the
same run, the ordinary time between two accepted shards; and, each run alone, plain Keras from `python` to the
first step of the same model, and a bare gRPC server from `python` to its first answer.
"""

from __future__ import annotations

import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.benchmarks.measured_job import MODELS, Accepted, MeasuredJob, worker, write_records
from tests.benchmarks.rows import Row

KILLS = RESTARTS = 5
BARE_STARTS = 3
CALM_SECONDS = (2.0, 3.0)  # before each fault, so that it comes at any moment of a shard
STALL_SECONDS = 3.0  # a pause that begins this soon after a kill is due to it
OPTIONS = ("--num_workers=2", "--grads_to_wait=2", "--records_per_task=2048")


@dataclass(frozen=True, slots=True)
class Kill:
    """A worker was killed, and another came for it."""

    time: float
    killed: str
    replacement: str


def run() -> list[Row]:
    """Each time as median and as worst."""
    keras = _bare_start("keras_step.py", str(MODELS / "tiny.py"))
    grpc = _bare_start("grpc_answer.py")
    kills, restarts, accepted = _disturbed_job()
    times = [shard.time for shard in accepted]
    ordinary = statistics.median(_pauses(times, 0.0, kills[0].time))
    others = [_first(kill.time, accepted, without=kill.killed) for kill in kills]
    stalls = [max(_pauses(times, kill.time, kill.time + STALL_SECONDS)) for kill in kills]
    replaced = [_first(kill.time, accepted, only=kill.replacement) for kill in kills]
    resumed = [_first(moment, accepted) for moment in restarts]
    return [
        *_rows("worker killed: next accepted shard", others, ordinary, "<= 1 s"),
        *_rows("worker killed: longest pause after it", stalls, ordinary, "-"),
        *_rows("worker killed: its replacement's first accepted shard", replaced, keras, "<= 12 s"),
        *_rows("master restarted: next accepted report", resumed, grpc, "<= 3 s"),
    ]


def _rows(name: str, seconds: Sequence[float], theirs: float, bar: str) -> list[Row]:
    median, worst = statistics.median(seconds), max(seconds)
    return [
        Row(f"{name}, median of {len(seconds)}", median, theirs, "s", bar, "lower"),
        Row(f"{name}, worst", worst, theirs, "s", bar, "lower"),
    ]


def _disturbed_job() -> tuple[list[Kill], list[float], list[Accepted]]:
    """The kills, the moments at which the restarting command was given, and what was accepted when."""
    values = np.random.default_rng(1).random((50_000, 16), np.float32)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = write_records(folder / "data", (row.tobytes() for row in values))
        with MeasuredJob(folder / "job", model=MODELS / "tiny.py", data=data, options=OPTIONS) as job:
            job.start()
            job.await_first_step(0)
            job.await_first_step(1)
            kills = [_kill_worker(job, number) for number in range(KILLS)]
            restarts = [_restart_master(job) for _ in range(RESTARTS)]
            _calm()
            return kills, restarts, job.end()


def _kill_worker(job: MeasuredJob, number: int) -> Kill:
    """The oldest dies each time; its replacement takes the next number."""
    _calm()
    moment = job.kill_worker(number)
    job.await_first_step(number + 2)
    return Kill(moment, worker(number), worker(number + 2))


def _restart_master(job: MeasuredJob) -> float:
    _calm()
    job.kill_master()
    moment = job.start()
    job.await_more_records()
    return moment


def _calm() -> None:
    time.sleep(random.uniform(*CALM_SECONDS))


def _first(moment: float, accepted: Sequence[Accepted], *, only: str = "", without: str = "") -> float:
    """Seconds from `moment` to the next accepted shard, of one worker or of all but one."""
    return next(
        shard.time - moment
        for shard in accepted
        if shard.time > moment and only in ("", shard.worker) and shard.worker != without
    )


def _pauses(times: Sequence[float], begin: float, end: float) -> list[float]:
    """Between accepted shards, of those pauses that touch this span."""
    return [after - before for before, after in itertools.pairwise(times) if after > begin and before < end]


def _bare_start(script: str, *arguments: str) -> float:
    """Median seconds of one of the programs in `bare/`, the start of Python and its end included."""
    command = [sys.executable, str(Path(__file__).parent / "bare" / script), *arguments]
    seconds = []
    for _ in range(BARE_STARTS):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


if __name__ == "__main__":
    for row in run():
        print(row)
