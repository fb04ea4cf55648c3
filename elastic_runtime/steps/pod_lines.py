"""What is important in the logs of a job's pods, for the log of its step, each line with its pod's name.

Important are warnings and errors with all that belongs to them, and the losses. A pod that says too much at
once is cut short: its own log has the rest. Here the logs are files; of a cluster's pods
`cluster_pod_lines.py` follows them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elastic_runtime.observe.live_state import PodState

MOST_LINES = 20
_ENTRY = re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\] \[(?P<level>[A-Z]+)\] \[[^\]]*\] (?P<words>.*)")
_IMPORTANT = {"WARNING", "ERROR", "CRITICAL"}


class Important:
    """Picks the important lines of one log, which is told line by line."""

    def __init__(self) -> None:
        self._goes_on = False  # the last entry was, and the next lines may belong to it

    def of(self, lines: Iterable[str]) -> Iterator[str]:
        """Those of these, the next ones of the log, without time and place."""
        for line in lines:
            entry = _ENTRY.match(line)
            if entry is not None:
                self._goes_on = entry["level"] in _IMPORTANT or entry["words"].startswith("Loss = ")
            if self._goes_on and line.strip():
                yield entry["words"] if entry is not None else line


def of_pod(pod: str, lines: Sequence[str], rest: str) -> Iterator[str]:
    """The lines with the pod's name before each; the first of them, if there are too many."""
    yield from (f"{pod} | {line}" for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        yield f"{pod} | ... and {len(lines) - MOST_LINES} more lines in {rest}"


def say(lines: Iterable[str]) -> None:
    """Write them to standard error, as they are."""
    for line in lines:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@dataclass(slots=True)
class _Place:
    """How far a log was read, and what of it was important last."""

    offset: int
    important: Important = field(default_factory=Important)


class PodLines:
    """Reads the logs of a run folder on from where they were when it was made."""

    def __init__(self, folder: Path, job: str) -> None:
        self._folder, self._prefix = folder, f"elasticdl-{job}-"
        self._places = {path: _Place(path.stat().st_size) for path in self._logs()}

    def see(self, _: Sequence[PodState]) -> None:
        """Write what has come since."""
        say(self.new())

    def close(self, *, pods_go_on: bool) -> None:  # noqa: ARG002 - whoever follows pods has to know
        """Write the last of it."""
        say(self.new())

    def new(self) -> Iterator[str]:
        """What has come since, as `worker-0 | ...`."""
        for path in self._logs():
            lines = [*self._important(path)]
            yield from of_pod(path.stem.removeprefix(self._prefix), lines, str(path))

    def _logs(self) -> list[Path]:
        logs = self._folder.glob(f"{self._prefix}*.log")
        return sorted(path for path in logs if path.stem != f"{self._prefix}master")

    def _important(self, path: Path) -> Iterator[str]:
        place = self._places.setdefault(path, _Place(0))
        return place.important.of(_whole_lines(path, place))


def _whole_lines(path: Path, place: _Place) -> list[str]:
    with path.open("rb") as log:
        log.seek(place.offset)
        text = log.read()
    end = text.rfind(b"\n") + 1
    place.offset += end
    return text[:end].decode(errors="replace").splitlines()
