"""RecordIO against the real pyrecordio: 100 000 records of 784 and of 100 random bytes, one by one through
the same API.

Both sides take turns in one run, and each counts by its best of three: on a shared machine the rest is noise.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from elastic_runtime.data import recordio as ours
from tests.benchmarks.rows import Row
from tests.unit.data.pyrecordio_oracle import load

RECORDS = 100_000
ROUNDS = 3
BARS = {784: (">= 2.0x", ">= 1.2x"), 100: (">= 5x", ">= 5x")}


def run() -> list[Row]:
    """Read, range read and write, of both record sizes."""
    theirs = load()
    with tempfile.TemporaryDirectory() as folder:
        return [row for size in BARS for row in _rows(theirs, size, Path(folder))]


def _rows(theirs: ModuleType, size: int, folder: Path) -> list[Row]:
    source = random.Random(size)
    records = [source.randbytes(size) for _ in range(RECORDS)]
    mine, other = str(folder / f"ours-{size}"), str(folder / f"theirs-{size}")
    rates: dict[str, float] = {}
    for _ in range(ROUNDS):
        _time(rates, "write theirs", lambda: _write(theirs, other, records))
        _time(rates, "write ours", lambda: _write(ours, mine, records))
        _time(rates, "read theirs", lambda: _read(theirs, other))
        _time(rates, "read ours", lambda: _read(ours, mine))
        _time(rates, "range ours", lambda: ours.read_range(mine, 0, RECORDS))
    read, write = BARS[size]
    unit = "records/s"
    return [
        Row(f"recordio read, {size} B", rates["read ours"], rates["read theirs"], unit, read, "higher"),
        Row(
            f"recordio range read, {size} B", rates["range ours"], rates["read theirs"], unit, read, "higher"
        ),
        Row(f"recordio write, {size} B", rates["write ours"], rates["write theirs"], unit, write, "higher"),
    ]


def _time(rates: dict[str, float], name: str, action: Callable[[], object]) -> None:
    began = time.perf_counter()
    action()
    rates[name] = max(rates.get(name, 0.0), RECORDS / (time.perf_counter() - began))


def _write(package: ModuleType, path: str, records: list[bytes]) -> None:
    writer = package.Writer(path)
    for record in records:
        writer.write(record)
    writer.close()


def _read(package: ModuleType, path: str) -> None:
    scanner = package.Scanner(path)
    while scanner.record() is not None:
        pass
    scanner.close()
