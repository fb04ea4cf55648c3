"""AllReduce: what elasticity costs while nothing happens, and what a loss and a join cost when they do.

Two workers, each computing on one thread. Throughput is held against a static Horovod program of the same
build, model and records; the sum of 10 M floats against a ring of plain TCP sockets; jobs and programs take
turns, and each side counts by its median turn. Then workers are killed with -9, the oldest first, each after
its predecessor's replacement has joined: standing still is the longest pause between two accepted shards of
four short minibatches each, after the kill and around the join. Goodput is that of some minutes with a kill
in each, as the job itself tells it: the share of the time that was spent in finished steps, less the records
that were trained again.
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

from elastic_runtime.observe.progress import goodput
from tests.benchmarks.bare.meeting import Meeting
from tests.benchmarks.measured_job import FILE, MODELS, Accepted, MeasuredJob, write_records
from tests.benchmarks.rows import Row

TURNS, SECONDS = 3, 8.0
KILLS = 20
MINUTES = 4
BATCH, SHARD = 64, 256
LOSS_SECONDS = 2.0  # a pause that begins this soon after a kill is due to the loss
STRATEGY = ("--distribution_strategy=AllreduceStrategy", "--num_workers=2", f"--minibatch_size={BATCH}")
ONE_THREAD = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "2",  # an operation that waits for others keeps one
    "OMP_NUM_THREADS": "1",
}
BARE = Path(__file__).parent / "bare"


def run() -> list[Row]:
    """Throughput, sums, losses and joins."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        return [*_throughput(folder), _sum(), *_faults(folder), _goodput(folder)]


def _throughput(folder: Path) -> list[Row]:
    pixels = np.random.default_rng(1).integers(0, 256, (4096, 32 * 32 * 3), np.uint8)
    data = write_records(folder / "pixels", (image.tobytes() for image in pixels))
    rows = []
    for name, what in (("heavy", "step bound by computing"), ("wide", "4 M weights")):
        turns = [
            (_our_rate(folder / f"{name}-{turn}", data, name), _bare_rate(data, name))
            for turn in range(TURNS)
        ]
        ours, theirs = (statistics.median(side) for side in zip(*turns, strict=True))
        title = f"2 workers against static Horovod, {what}"
        rows.append(Row(title, ours, theirs, "records/s", ">= 0.97x", "higher"))
    return rows


def _our_rate(folder: Path, data: Path, model: str) -> float:
    options = (*STRATEGY, f"--records_per_task={8 * BATCH}")
    with MeasuredJob(
        folder, model=MODELS / f"{model}.py", data=data, options=options, environment=ONE_THREAD
    ) as job:
        return job.records_per_second(workers=2, records_per_shard=8 * BATCH, seconds=SECONDS)


def _bare_rate(data: Path, model: str) -> float:
    arguments = (str(MODELS / f"{model}.py"), str(data / FILE), str(BATCH), str(SECONDS))
    return sum(_two("static_horovod.py", *arguments))


def _sum() -> Row:
    turns = [(_two("sum_horovod.py"), _two("sum_sockets.py")) for _ in range(TURNS)]
    ours, theirs = (statistics.median(min(side) for side in sides) for sides in zip(*turns, strict=True))
    return Row(
        "sum of 10 M floats over 2 workers, against TCP sockets", ours, theirs, "1/s", ">= 0.85x", "higher"
    )


def _two(script: str, *arguments: str) -> list[float]:
    """What the two processes of a program print last."""
    with Meeting() as meeting:
        processes = [
            subprocess.Popen(
                [sys.executable, str(BARE / script), *meeting.place(rank, 2), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=meeting.environment(ONE_THREAD),
            )
            for rank in range(2)
        ]
        printed = [process.communicate(timeout=300)[0] for process in processes]
    return [float(lines.split()[-1]) for lines in printed]


@dataclass(frozen=True, slots=True)
class _Kill:
    time: float
    joined: float  # when its replacement was seen to train


def _paced(folder: Path) -> MeasuredJob:
    data = folder.with_suffix(".values")
    values = np.random.default_rng(1).random((100_000, 16), np.float32)
    write_records(data, (row.tobytes() for row in values))
    options = (*STRATEGY, f"--records_per_task={SHARD}")
    return MeasuredJob(folder, model=MODELS / "paced.py", data=data, options=options)


def _goodput(folder: Path) -> Row:
    with _paced(folder / "goodput") as job:
        job.start()
        for number in range(2):
            job.await_first_step(number)
        begin = time.time()
        for number in range(MINUTES):
            moment = begin + 60 * (number + random.random() * 0.7)  # its replacement joins in the same minute
            time.sleep(max(0.0, moment - time.time()))
            job.kill_worker(number)
            job.await_first_step(number + 2)
        time.sleep(max(0.0, begin + 60 * MINUTES - time.time()))
        samples = job.samples(begin)
    first, last = samples[0], samples[-1]
    measured = goodput(
        training_seconds=last.training_seconds - first.training_seconds,
        wall_seconds=last.time - first.time,
        done=last.records_done - first.records_done,
        retrained=job.records_twice(begin),
    )
    title = f"goodput with a kill a minute, over {MINUTES} minutes"
    return Row(title, measured, None, "of the time", ">= 0.93", "higher")


def _faults(folder: Path) -> list[Row]:
    with _paced(folder / "faults") as job:
        job.start()
        for number in range(2):
            job.await_first_step(number)
        kills = [_kill(job, number) for number in range(KILLS)]
        _calm()
        twice = job.records_retrained()
        accepted = job.end()
    return _rows(kills, accepted, twice)


def _rows(kills: Sequence[_Kill], accepted: Sequence[Accepted], twice: int) -> list[Row]:
    times = [shard.time for shard in accepted]
    ordinary = statistics.median(_pauses(times, times[0], kills[0].time))
    losses = [max(_pauses(times, kill.time, kill.time + LOSS_SECONDS)) for kill in kills]
    joins = [max(_pauses(times, kill.time + LOSS_SECONDS, kill.joined + 0.5)) for kill in kills]
    return [
        Row(
            f"worker lost: the other stands still, median of {KILLS}",
            statistics.median(losses),
            ordinary,
            "s",
            "<= 0.6 s",
            "lower",
        ),
        Row("worker lost: the other stands still, worst", max(losses), ordinary, "s", "<= 1.5 s", "lower"),
        Row(
            f"worker joins: the others stand still, median of {KILLS}",
            statistics.median(joins),
            ordinary,
            "s",
            "<= 0.7 s",
            "lower",
        ),
        Row("worker joins: the others stand still, worst", max(joins), ordinary, "s", "-", "lower"),
        Row(
            "records trained twice, each kill",
            twice / KILLS,
            None,
            "records",
            f"<= {SHARD} (one shard)",
            "lower",
        ),
    ]


def _kill(job: MeasuredJob, number: int) -> _Kill:
    """The oldest dies each time; its replacement takes the next number."""
    _calm()
    moment = job.kill_worker(number)
    job.await_first_step(number + 2)
    return _Kill(moment, time.time())


def _calm() -> None:
    time.sleep(random.uniform(1.0, 2.0))


def _pauses(times: Sequence[float], begin: float, end: float) -> list[float]:
    """Between accepted shards, of those pauses that touch this span."""
    return [after - before for before, after in itertools.pairwise(times) if after > begin and before < end]


if __name__ == "__main__":
    for row in run():
        print(row, row.ratio)
