"""Records a second of 1 parameter server with 2 workers against the same with 1 worker.

The model's step is bound by computing, and every worker computes on one thread, so that there is a core for
each. Gradients are applied as they come (`use_async`). Jobs of either size take turns; rates are those of the
accepted shards once all workers train, by the master's clock; each side counts by its median turn.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.measured_job import MODELS, MeasuredJob, write_records
from tests.benchmarks.rows import Row

TURNS, SECONDS = 3, 12.0
SHARD, SHARDS = 128, 32
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run() -> list[Row]:
    """One row."""
    pixels = np.random.default_rng(1).integers(0, 256, (SHARD * SHARDS, 32 * 32 * 3), np.uint8)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = write_records(folder / "data", (image.tobytes() for image in pixels))
        turns = [
            [_rate(folder / f"job-{turn}-{count}", data, count) for count in (1, 2)] for turn in range(TURNS)
        ]
    one, two = (statistics.median(side) for side in zip(*turns, strict=True))
    name = "1 PS + 2 workers against 1 PS + 1 worker, step bound by computing"
    return [Row(name, two, one, "records/s", "-", "higher")]


def _rate(folder: Path, data: Path, workers: int) -> float:
    options = (f"--num_workers={workers}", "--use_async", f"--records_per_task={SHARD}")
    with MeasuredJob(
        folder, model=MODELS / "heavy.py", data=data, options=options, environment=ONE_THREAD
    ) as job:
        return job.records_per_second(workers=workers, records_per_shard=SHARD, seconds=SECONDS)


if __name__ == "__main__":
    for row in run():
        print(row, row.ratio)
