"""`python -m tests.benchmarks`: every figure of docs/benchmarks.md, one benchmark after the other.

Bars are reported, not enforced: the exit code is 1 only if a benchmark could not come to its end.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.page import Result, moment, page, surroundings, table

BENCHMARKS = (
    "recordio",
    "parameter_server",
    "local_training",
    "local_job",
    "scaling",
    "faults",
    "allreduce",
    "ledger",
    "priorities",
    "pipeline_steps",
    "kubeflow_steps",
    "checks",
)
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    given = parser.parse_args(arguments)
    found = surroundings()
    results = [_measure(name) for name in given.only or BENCHMARKS]
    print("\n" + table([row for result in results for row in result.rows]) + "\n")
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    if given.write:
        PAGE.write_text(page(results, found, before=PAGE.read_text(), order=BENCHMARKS))
        print(f"written: {PAGE.relative_to(PAGE.parents[1])}")
    return 1 if any(result.error for result in results) else 0


def _measure(name: str) -> Result:
    """Run one; its failure is told at once and does not keep the others from running."""
    module = importlib.import_module(f"tests.benchmarks.{name}")
    print(f"{name} ...", end="", file=sys.stderr, flush=True)
    begin, when, rows, error = time.perf_counter(), moment(), [], ""
    try:
        rows = module.run()
    except Exception as problem:  # noqa: BLE001 - whatever it is, the figures of the others are wanted
        error = f"{type(problem).__name__}: {problem}"
        traceback.print_exc()
    seconds = time.perf_counter() - begin
    print(f" {seconds:.0f} s", file=sys.stderr)
    return Result(module, rows, error, seconds, when)


if __name__ == "__main__":
    raise SystemExit(main())
