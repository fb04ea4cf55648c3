"""Records a second of 1 parameter server with 2 workers against the same with 1 worker.

The model's step is bound by computing, and every worker computes on one thread, so that there is a core for
each. Gradients are applied as they come (`use_async`). Jobs of either size take turns; rates are those of the
accepted shards once all workers train, by the master's clock.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.benchmarks.measured_job import MeasuredJob
from tests.benchmarks.rows import Row

ROUNDS = 3
MEASURED_SECONDS = 15.0
RECORDS_PER_SHARD = 128
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run() -> list[Row]:
    """One row."""
    one, two = [], []
    for _ in range(ROUNDS):
        one.append(_records_per_second(1))
        two.append(_records_per_second(2))
    name = "1 PS + 2 workers against 1 PS + 1 worker, step bound by computing"
    return [Row(name, statistics.median(two), statistics.median(one), "records/s", "-", "higher")]


def _records_per_second(workers: int) -> float:
    options = (
        *(f"--num_workers={workers}", "--use_async", "--minibatch_size=64"),
        f"--records_per_task={RECORDS_PER_SHARD}",
    )
    records = [row.tobytes() for row in np.random.default_rng(1).integers(0, 256, (4000, 3072), np.uint8)]
    with (
        tempfile.TemporaryDirectory() as folder,
        MeasuredJob(
            Path(folder), model="heavy.py", records=records, options=options, environment=ONE_THREAD
        ) as job,
    ):
        job.start()
        for number in range(workers):
            job.await_first_step(number)
        begin = time.time()
        time.sleep(MEASURED_SECONDS)
        times = [shard.time for shard in job.end() if shard.time >= begin]
    return (len(times) - 1) * RECORDS_PER_SHARD / (times[-1] - times[0])


if __name__ == "__main__":
    for row in run():
        print(row, row.ratio)
