"""Worlds for the tests of data: the real pyrecordio, and files made in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pyrecordio_oracle
import pytest

from elastic_runtime.data.recordio import Writer

WriteRecords = Callable[..., str]


@pytest.fixture(scope="session")
def pyrecordio() -> ModuleType:
    """The old package, or a skip that says why it cannot be had."""
    try:
        return pyrecordio_oracle.load()
    except pyrecordio_oracle.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def write_records(tmp_path: Path) -> WriteRecords:
    """Write records to a file and give its path."""

    def write(records: list[bytes], name: str = "data-00000", **options: object) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with Writer(str(path), **options) as writer:  # type: ignore[arg-type]
            for record in records:
                writer.write(record)
        return str(path)

    return write
