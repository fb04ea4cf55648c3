"""What benchmarks found, as text: a table for the terminal, and the page `docs/benchmarks.md`.

What a benchmark measures is told once, in its module's docstring; the page quotes it.
"""

from __future__ import annotations

import datetime
import inspect
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from elastic_runtime.observe import machine
from tests.benchmarks.rows import Row

NUMBERS = (1, 2, 4)  # columns
HEAD = ("", "ours", "theirs", "unit", "ratio", "bar", "met?")
WHERE = "Where"
MET = {True: "yes", False: "NO", None: ""}
NOT_MEASURED = "not measured"
INTRODUCTION = """\
# Benchmarks

Written by `make bench`; do not edit. A single one: `python -m tests.benchmarks --only NAME`; with `--write`,
the others stay as they were measured before.

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
    when: str = ""  # and at which load

    @property
    def title(self) -> str:
        """Its heading."""
        return Path(inspect.getfile(self.module)).stem.replace("_", " ")


def moment() -> str:
    """Now, and what else the machine does."""
    return f"{datetime.date.today().isoformat()}, at a load of {os.getloadavg()[0]:.1f} before"


def surroundings() -> dict[str, str]:
    """Where and when it is measured; to be asked before the first measurement."""
    facts = machine.facts()
    return {
        "machine": f"{facts['cores']} cores of {_processor()}, {int(facts['memory']) >> 30} GiB of memory",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
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


def page(
    results: Sequence[Result], found: Mapping[str, str], *, before: str = "", order: Sequence[str] = ()
) -> str:
    """The whole of `docs/benchmarks.md`; what was not measured now stays as the page told it `before`."""
    _, *kept = re.split(r"^(?=## )", before, flags=re.MULTILINE)
    sections = {text.partition("\n")[0].removeprefix("## "): text for text in kept}
    sections.pop(WHERE, None)
    sections |= {result.title: "\n".join(_section(result)) + "\n" for result in results}
    titles = [name.replace("_", " ") for name in order]
    ordered = [sections[title] for title in titles or sections if title in sections]
    good, bad = (sum(text.count(f"| {MET[met]} |\n") for text in ordered) for met in (True, False))
    unknown = sum(text.count(f"| {NOT_MEASURED} |\n") for text in ordered)
    count = f"{good} of {good + bad + unknown} bars are met" + (
        f", {unknown} not measured" if unknown else ""
    )
    parts = [INTRODUCTION, f"{count}.\n", "".join(ordered) + f"## {WHERE}\n"]
    return "\n".join([*parts, *(f"- {name}: {value}" for name, value in found.items())]) + "\n"


def _section(result: Result) -> Iterator[str]:
    script = Path(inspect.getfile(result.module)).name
    yield f"## {result.title}\n"
    yield f"{inspect.getdoc(result.module)}\n"
    yield f"Script: `tests/benchmarks/{script}`; it took {result.seconds:.0f} s on {result.when}.\n"
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
    ours = "" if row.ours is None else _number(row.ours)
    met = NOT_MEASURED if row.ours is None else MET[row.met]
    return row.name, ours, theirs, row.unit, ratio, row.bar.strip("-"), met


def _number(value: float) -> str:
    """Three digits that count; all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
