"""The ledger with 1 000 000 shards and 10 000 workers: decisions a second on one core, memory, size of its
state; and the journal's group commit against one commit an event.

Each part runs in a process of its own, so that its memory is its own. The simulated job checks its end:
every record done, none twice.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from elastic_runtime.master.journal import Journal
from elastic_runtime.master.ledger import Ask, Finished, Granted, Lease, Ledger, Progress, Source, WorkerLost
from tests.benchmarks.rows import Row
from tests.benchmarks.simulated_job import SimulatedJob

SHARDS, WORKERS, FILES, RECORDS = 1_000_000, 10_000, 1000, 128


def run() -> list[Row]:
    """All figures; takes a minute or two."""
    decide, simulate, journal = (_child(part) for part in PARTS)
    return [
        Row("ledger decisions", decide["rate"], None, "1/s", ">= 20000", "higher"),
        Row("ledger state, half done, shuffled", decide["state"], None, "KB", "-", "lower"),
        Row("simulated job, decisions", simulate["rate"], None, "1/s", "-", "higher"),
        Row("simulated job, peak memory", simulate["memory"], None, "MB", "<= 300", "lower"),
        Row(
            "journal, 256 waiting at a time",
            journal["group"],
            journal["alone"],
            "events/s",
            ">= 5x",
            "higher",
        ),
    ]


def _ledger() -> Ledger:
    sources = [Source(f"data-{number:05d}", SHARDS // FILES * RECORDS) for number in range(FILES)]
    return Ledger(sources, records_per_shard=RECORDS, seed=1, lease_seconds=60.0)


def _decide() -> dict[str, float]:
    """Workers in turn ask, report progress and finish, until half the shards are done; some are lost."""
    ledger, chance = _ledger(), random.Random(1)
    names = [f"elasticdl-bench-worker-{number}" for number in range(WORKERS)]
    leases: dict[int, Lease] = {}
    decisions, begin = 0, time.perf_counter()
    while ledger.records_done < ledger.shards.records // 2:
        for number, name in enumerate(names):
            now = time.perf_counter()
            if chance.random() < 0.001:
                ledger.handle(WorkerLost(name))
                leases.pop(number, None)
            if lease := leases.get(number):
                ledger.handle(Progress(name, lease, now))
                ledger.handle(Finished(name, lease, decisions, now))
            [granted] = ledger.handle(Ask(name, now))
            assert isinstance(granted, Granted)
            leases[number] = granted.lease
            decisions += 3
    rate = decisions / (time.perf_counter() - begin)
    ledger.forget_before(decisions)
    return {"rate": rate, "state": len(json.dumps(ledger.state())) / 1000}


def _simulate() -> dict[str, float]:
    """10 000 pods that live 50 minutes on average, virtual time; the rate includes the simulation itself."""
    job = SimulatedJob(_ledger(), WORKERS, lifetime=3000.0)
    begin = time.perf_counter()
    job.run()
    seconds = time.perf_counter() - begin
    ledger = job.ledger
    whole = {source.name: [(0, source.records)] for source in ledger.shards.sources}
    assert ledger.finished
    assert ledger.done_intervals(0) == whole
    assert job.relaunches > 0
    return {"rate": job.decisions / seconds, "memory": _peak_megabytes()}


def _peak_megabytes() -> float:
    """Of this process since it became this program; `getrusage` counts what it was before, too."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def _journal() -> dict[str, float]:
    return {"group": asyncio.run(_events_per_second(256)), "alone": asyncio.run(_events_per_second(1))}


async def _events_per_second(writers: int) -> float:
    each = max(50, 20_000 // writers) if writers > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal")

        async def report() -> None:
            for number in range(each):
                journal.append(["Finished", "elasticdl-bench-worker-7", [0, number, number], number, 1.5e9])
                await journal.commit()

        begin = time.perf_counter()
        await asyncio.gather(*(report() for _ in range(writers)))
        rate = each * writers / (time.perf_counter() - begin)
        await journal.close()
    return rate


PARTS = {"decide": _decide, "simulate": _simulate, "journal": _journal}


def _child(part: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.ledger", part]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return figures


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(PARTS[sys.argv[1]]()))
    else:
        for row in run():
            theirs = "" if row.theirs is None else f" against {row.theirs:,.0f}"
            print(f"{row.name}: {row.ours:,.0f}{theirs} {row.unit} (bar {row.bar})")
