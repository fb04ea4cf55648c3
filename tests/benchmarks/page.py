"""What benchmarks found, as text: a table for the terminal, and the page `docs/benchmarks.md`.

What a benchmark measures is told once, in its module's docstring; the page quotes it.
"""

from __future__ import annotations

import datetime
import inspect
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from elastic_runtime.observe import machine
from tests.benchmarks.rows import Row

NUMBERS = (1, 2, 4)  # columns
HEAD = ("", "ours", "theirs", "unit", "ratio", "bar", "met?")
MET = {True: "yes", False: "NO", None: ""}
INTRODUCTION = """\
# Benchmarks

Written by `make bench`; do not edit. A single one: `python -m tests.benchmarks --only NAME`.

Each line holds a figure of ours against another that was measured in the same run; *ratio* is ours over
theirs. The *bar* is what was promised: one such as `2.0x`, or a plain number beside a figure of theirs, is
about the ratio, any other about our figure. Absolute figures are those of the machine below; ratios travel
better.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark gave: rows, or the error it ended with."""

    module: ModuleType
    rows: Sequence[Row]
    error: str
    seconds: float


def surroundings() -> dict[str, str]:
    """Where and when it is measured; to be asked before the first measurement."""
    facts = machine.facts()
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{facts['cores']} cores of {_processor()}, {int(facts['memory']) >> 30} GiB of memory",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "versions": ", ".join(f"{name} {version}" for name, version in machine.versions().items()),
    }


def table(rows: Sequence[Row]) -> str:
    """In columns, for a terminal."""
    lines = [HEAD, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def page(results: Sequence[Result], found: Mapping[str, str]) -> str:
    """The whole of `docs/benchmarks.md`."""
    judged = [row.met for result in results for row in result.rows if row.met is not None]
    parts = [INTRODUCTION, f"{sum(judged)} of {len(judged)} bars are met.\n"]
    for result in results:
        parts += ["\n".join(_section(result))]
    parts += ["## Where and when\n", "\n".join(f"- {name}: {value}" for name, value in found.items())]
    return "\n".join(parts) + "\n"


def _section(result: Result) -> Iterator[str]:
    script = Path(inspect.getfile(result.module)).name
    yield f"## {script.removesuffix('.py').replace('_', ' ')}\n"
    yield f"{inspect.getdoc(result.module)}\n"
    yield f"Script: `tests/benchmarks/{script}`; it took {result.seconds:.0f} s.\n"
    if result.error:
        yield f"It did not come to its end: {result.error}\n"
        return
    yield _markdown(HEAD)
    yield "|---|--:|--:|---|--:|---|---|"
    yield from (_markdown(_cells(row)) for row in result.rows)
    yield ""


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> tuple[str, ...]:
    theirs = "" if row.theirs is None else _number(row.theirs)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    return row.name, _number(row.ours), theirs, row.unit, ratio, row.bar.strip("-"), MET[row.met]


def _number(value: float) -> str:
    """Three digits that count; all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
