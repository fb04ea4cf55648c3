"""The seam between data and training: a reader names its sources and gives ranges of their records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Source:
    """One file, or whatever a user's reader calls a source: `records` of them, counted from `start`."""

    name: str
    records: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a model's `feed` is told about the records; None where the data do not say."""

    column_names: list[str] | None = None
    column_dtypes: Mapping[str, Any] | None = None


class Reader(Protocol):
    """Where records come from. Reading the same range again gives the same records."""

    @property
    def metadata(self) -> Metadata:
        """What is known about columns."""
        ...

    def sources(self) -> list[Source]:
        """Everything there is to read."""
        ...

    def read(self, source: str, start: int, end: int) -> list[bytes]:
        """Exactly the records from `start` to `end` of a source, or an error."""
        ...
