"""The one place a job's events go to: the file, the history, and whoever else listens.

The master makes an event and calls `record`. Samples are thinned on their way into file and history, so both
stay small however long the job; `history.last_sample` and the listeners always have the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from elastic_runtime.observe.events import FILE_NAME, Event, EventLog, JobEnded, Sample, read_events
from elastic_runtime.observe.history import History
from elastic_runtime.observe.thinning import Thinner

Listener = Callable[[Event], None]


class Recorder:
    """Records the events of the job of a run folder, going on where an earlier master stopped."""

    def __init__(self, folder: Path, *, listeners: Iterable[Listener] = ()) -> None:
        path = folder / FILE_NAME
        self.history = History.of(read_events(path))
        self._log = EventLog(path)
        self._listeners = tuple(listeners)
        self._thinner: Thinner | None = None

    def record(self, event: Event) -> None:
        """Take an event in and pass it on."""
        if isinstance(event, Sample):
            self._thinner = self._thinner or Thinner(started=self.history.begin or event.time)
            self._keep(self._thinner.offer(event))
            self.history.last_sample = event
            self.history.latest = max(self.history.latest, event.time)
        else:
            if isinstance(event, JobEnded):
                self._flush()
            self._keep([event])
        for listen in self._listeners:
            listen(event)

    def close(self) -> None:
        """Write what was held back and close the file."""
        self._flush()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _flush(self) -> None:
        if self._thinner:
            self._keep(self._thinner.flush())

    def _keep(self, events: Iterable[Event]) -> None:
        for event in events:
            self._log.append(event)
            self.history.add(event)
