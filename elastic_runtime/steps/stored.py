"""Copies of a step's outputs in the engine's store, while the step runs and where the engine makes none.

KFP puts outputs into its store when a step has succeeded, and nothing of one that failed, was killed or was
terminated. So what can be looked at is copied there now and then. A thread does it, one at a time: a store
that is slow or away holds nobody up.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

from elastic_runtime.data import storage
from elastic_runtime.errors import ElasticError
from elastic_runtime.steps.artifact import Artifact, address
from elastic_runtime.steps.in_cluster import CREDENTIALS

log = logging.getLogger(__name__)

SECONDS = 30.0
"""From one copy to the next."""
_OPEN_UNTOLD = "gs://"
"""Workload identity opens it, of which no variable tells."""


class Stored:
    """Those of these outputs whose place is a store that this step can reach."""

    def __init__(self, outputs: Mapping[str, Artifact]) -> None:
        self._outputs = {
            name: (Path(output.path), address(output))
            for name, output in outputs.items()
            if storage.local_path(address(output)) is None
        }
        self._thread: threading.Thread | None = None
        self._next = 0.0
        self._said: set[str] = set()

    def refresh(self, now: float) -> None:
        """Copy them if it is time to; returns at once."""
        if self._outputs and now >= self._next and not (self._thread and self._thread.is_alive()):
            self._next = now + SECONDS
            self._thread = threading.Thread(target=self._copy_all, name="outputs", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Nothing is under way any more: whatever comes later to these places stays."""
        if self._thread is not None:
            self._thread.join()

    def put(self) -> None:
        """Copy them once more, as they are at the end, and say where they are."""
        self.close()
        for name in self._copy_all():
            log.info("its %s is kept: %s", name, self._outputs[name][1])

    def out_of_reach(self) -> list[str]:
        """The names of those whose store lets this step in by nothing that it was given."""
        return [name for name, (_, place) in self._outputs.items() if not _is_open(place)]

    def _copy_all(self) -> list[str]:
        return [name for name, (_, place) in self._outputs.items() if _is_open(place) and self._copy(name)]

    def _copy(self, name: str) -> bool:
        file, place = self._outputs[name]
        try:
            if is_there := file.is_file():
                storage.put_file(file, place)
        except ElasticError as problem:
            if str(problem) not in self._said:
                self._said.add(str(problem))
                log.warning("its %s is not kept: %s", name, problem)
            return False
        return is_there


def _is_open(place: str) -> bool:
    """Whether this step has been given anything that lets it in."""
    is_told = any(re.fullmatch(CREDENTIALS, name) for name in os.environ)
    return is_told or place.startswith(_OPEN_UNTOLD)
