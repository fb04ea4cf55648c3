"""Jobs of AllReduce for these tests: real processes on real Horovod, by the harness of the other jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from elastic_runtime.platform.allreduce import REMEDY, why_no_allreduce

sys.path.append(str(Path(__file__).parents[1] / "job"))

if TYPE_CHECKING:
    from together import Together


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1200 records in three files."""
    from harness import write_data

    return write_data(tmp_path_factory.mktemp("data") / "train")


@pytest.fixture
def train(tmp_path: Path, data: Path) -> Iterator[Callable[..., Together]]:
    """Starts the test's job; what is left of it at the end is killed."""
    from together import Together

    if reason := why_no_allreduce():
        pytest.skip(f"{reason}: {REMEDY}")
    made: list[Together] = []

    def start(*options: str, pace: float = 0.04, model: str = "tiny") -> Together:
        made.append(Together(tmp_path, data, *options, model=model))
        made[-1].pace(pace)
        made[-1].start()
        return made[-1]

    yield start
    for run in made:
        run.close()
