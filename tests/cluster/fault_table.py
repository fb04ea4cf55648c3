"""What faults cost jobs, as the tests that cause them measure it: the rows of `docs/faults.md`.

A test gives each of its faults a row; what the fault cost is read from the job's journal, the master's
summary and the API. The page is written only if that is asked for, so that tests leave no trace.
"""

from __future__ import annotations

import itertools
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.cluster.jobs import ClusterJob

HEAD = """\
# What faults do to a job

Written by the tests that cause these faults on [a real Kubernetes](cluster.md); do not edit. To measure anew:

```sh
ELASTICDL_WRITE_FAULTS=docs/faults.md .venv/bin/python -m pytest tests/cluster/test_job_faults.py
```

The jobs train a tiny model, with parameter servers unless AllReduce is named, on workers that take
{seconds:.1f} s for a shard of {records} records. All that could go on ended with exit code 0 and every
record done exactly once an epoch.

- *said*: the line that the user of `elasticdl train` sees of it.
- *stood still*: the longest time without a finished shard, from the fault on; where the job could not begin,
  from the cure to its first finished shard, the start of TensorFlow included. Where no master can hear of
  a shard (the API server away, the master's node lost alone): the longest time without a step.
- *again*: records that went into gradients a second time. The ledger counts them once.
- *new pods*: those that were started because of it.
- *left*: objects of the job, counted through the API when all was over. The ended master's pod, which stays
  for its log, is not counted.

| what was done | said | stood still | again | new pods | left |
|---|---|--:|--:|--:|--:|
"""


@dataclass(slots=True)
class Row:
    """One fault; what there was nothing to measure of is None."""

    done: str
    said: str = ""
    began: float = field(default_factory=time.time)
    could_begin: bool = True
    still: float | None = None
    again: int | None = None
    pods: int | None = None
    left: int | None = None

    def cured(self) -> None:
        """What keeps the job from beginning is out of the way now."""
        self.began, self.could_begin = time.time(), False

    def line(self) -> str:
        """As the table has it."""
        said = f"`{self.said}`" if self.said else ""
        still = "" if self.still is None else f"{self.still:.1f} s"
        numbers = ("" if number is None else str(number) for number in (self.again, self.pods, self.left))
        return f"| {' | '.join([self.done, said, still, *numbers])} |"


class FaultTable:
    """The rows of all tests that have run."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    @contextmanager
    def row(self, done: str, job: ClusterJob) -> Iterator[Row]:
        """A fault that the block causes; when it ends the job has been trained on, and the cost is known."""
        pods, again = _uids(job), _trained_again(job)
        row = self.note(done)
        yield row
        over = time.time()

        def accepted() -> list[float]:
            """All that the journal has now: a moment later a snapshot may have taken their place."""
            found = job.accepted()
            return found if any(moment > over for moment in found) else []

        found = job.until(accepted, "the training goes on")
        moments = [row.began, *(moment for moment in found if moment > row.began)]
        row.still = max(after - before for before, after in itertools.pairwise(moments))
        if row.could_begin:
            job.until(lambda: _written(job) > over, "the master has written down what that cost")
            row.pods = len(_uids(job) - pods)
            row.again = _trained_again(job) - (again if job.pods()["master"].metadata.uid in pods else 0)

    def note(self, done: str, said: str = "") -> Row:
        """A fault that ends the job."""
        self.rows.append(Row(done, said))
        return self.rows[-1]

    def over(self, job: ClusterJob) -> None:
        """The job of the latest rows has ended."""
        for row in self.rows:
            if row.left is None:
                row.said = row.said.replace(job.namespace.name, "NAMESPACE")
                row.left = sum(each != f"Pod/{job.pod('master')}" for each in job.left())

    def write(self, path: Path, *, seconds: float, records: int) -> None:
        """The whole page."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
        cores, system = len(os.sched_getaffinity(0)), f"{platform.system()} {platform.machine()}"
        machine = f"{cores} cores, {memory} GiB of memory, {system}, load {os.getloadavg()[2]:.0f}"
        foot = f"Measured on {datetime.now(UTC):%Y-%m-%d}: {machine}."
        table = "\n".join(row.line() for row in self.rows)
        path.write_text(f"{HEAD.format(seconds=seconds, records=records)}{table}\n\n{foot}\n")


def _uids(job: ClusterJob) -> set[str]:
    return {pod.metadata.uid for pod in job.pods().values()}


def _trained_again(job: ClusterJob) -> int:
    return int(job.summary().get("records_retrained", 0))


def _written(job: ClusterJob) -> float:
    """When the present master wrote its summary."""
    summary = job.summary()
    return float(summary.get("started", 0.0) + summary.get("wall_seconds", 0.0))
