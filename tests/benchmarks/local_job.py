"""A whole Local job (a master, one worker, shards leased and reported) against `model.fit` on its own.

The tutorial's CNN on the same 5 888 images of MNIST, 128 records a shard as in the tutorial. Both take turns;
ours is the rate of the accepted shards by the master's clock, theirs that of the median epoch, both once the
first steps are over; each side counts by its median turn.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from elastic_runtime.data.example import encode
from elastic_runtime.data.mnist import sample
from tests.benchmarks.measured_job import FILE, MeasuredJob, write_records
from tests.benchmarks.rows import Row

MODEL = Path(__file__).parents[2] / "model_zoo" / "mnist" / "mnist_functional_api.py"
FIT = Path(__file__).parent / "bare" / "keras_fit.py"
TURNS, SECONDS = 3, 8.0
SHARD, SHARDS = 128, 46
OPTIONS = ("--distribution_strategy=Local", "--num_workers=1", f"--records_per_task={SHARD}")


def run() -> list[Row]:
    """One row."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = write_records(folder / "data", _images())
        turns = [(_ours(folder / f"job-{turn}", data), _theirs(data / FILE)) for turn in range(TURNS)]
    ours, theirs = (statistics.median(side) for side in zip(*turns, strict=True))
    return [
        Row("a whole Local job against model.fit, MNIST CNN", ours, theirs, "records/s", ">= 0.9x", "higher")
    ]


def _ours(folder: Path, data: Path) -> float:
    with MeasuredJob(folder, model=MODEL, data=data, options=OPTIONS) as job:
        return job.records_per_second(workers=1, records_per_shard=SHARD, seconds=SECONDS)


def _theirs(file: Path) -> float:
    command = [sys.executable, str(FIT), str(MODEL), str(file), str(SECONDS)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _images() -> Iterator[bytes]:
    with np.load(sample()) as arrays:
        images, labels = arrays["x_train"], arrays["y_train"]
    for image, label in zip(images[: SHARD * SHARDS], labels, strict=False):
        yield encode({"image": image.ravel().astype(np.float32), "label": int(label)})


if __name__ == "__main__":
    for row in run():
        print(row, row.ratio)
