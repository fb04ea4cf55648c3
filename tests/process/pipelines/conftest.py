"""Training steps for tests; nothing outlives its test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.job.harness import write_data
from tests.process.pipelines.step_run import MakeStep, StepRun


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1200 records in three files."""
    return write_data(tmp_path_factory.mktemp("data") / "train")


@pytest.fixture
def make_step(tmp_path: Path, data: Path) -> Iterator[MakeStep]:
    """Makes the test's pipeline; what is left of it at the end is killed."""
    made: list[StepRun] = []

    def make(data: Path = data, *, model: str = "tiny", retries: int = 0, **options: Any) -> StepRun:
        made.append(StepRun(tmp_path, data, model=model, retries=retries, **options))
        return made[-1]

    yield make
    for run in made:
        run.close()
