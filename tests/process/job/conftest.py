"""Data for all tests, a run for each; no process outlives its test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import MakeRun, Run, write_data


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1200 records in three files."""
    return write_data(tmp_path_factory.mktemp("data") / "train")


@pytest.fixture
def make_run(tmp_path: Path, data: Path) -> Iterator[MakeRun]:
    """Makes the test's job; what is left of it at the end is killed."""
    made: list[Run] = []

    def make(*options: str, data: Path = data, folder: Path = tmp_path, **how: str) -> Run:
        made.append(Run(folder, data, *options, **how))
        return made[-1]

    yield make
    for run in made:
        run.close()
