"""The steps of a pipeline that runs: a live tree on a terminal, elsewhere a line for each change of one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from elastic_runtime.observe import figures
from elastic_runtime.spec.entry import say
from pipelines.engines import Phase, Step

_SIGNS = {
    Phase.WAITING: ("○", "dim"),
    Phase.RUNNING: ("●", "cyan"),
    Phase.SUCCEEDED: ("✓", "green"),
    Phase.FAILED: ("✗", "bold red"),
    Phase.SKIPPED: ("-", "dim"),
}
_ASCII = str.maketrans("○●✓✗", "o*+x")


class View:
    """Shows one state of the steps after the other; a context, since a terminal is to be left in order."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._title, self._steps = title, list[Step]()
        console = console or Console(stderr=True)
        self._console = console
        self._live = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(console=console, get_renderable=self.tree, refresh_per_second=2)

    def show(self, steps: Sequence[Step]) -> None:
        """From now on this is how things are."""
        before = {step.name: _words(step) for step in self._steps}
        self._steps = [*steps]
        if self._live is not None:
            self._live.refresh()
            return
        for step in steps:
            if _words(step) != before.get(step.name, Phase.WAITING.value):
                say(f"{step.name:<12} {_words(step)}")

    def tree(self) -> Tree:
        """As a terminal has it, with the time that each has taken so far."""
        root, width = Tree(escape(self._title)), max((len(step.name) for step in self._steps), default=0)
        for step in self._steps:
            sign, style = _SIGNS[step.phase]
            line = Table.grid(padding=(0, 2))  # so that what is long goes on under its beginning
            line.add_column(no_wrap=True, width=width + 2, style=style)
            line.add_column(overflow="fold", style=style)
            words = " ".join(_words(step, time.time()).split())
            line.add_row(*(escape(self._shown(text)) for text in (f"{sign} {step.name}", words)))
            root.add(line)
        return root

    def _shown(self, text: str) -> str:
        return text.translate(_ASCII) if self._console.options.ascii_only else text

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()


def _words(step: Step, now: float | None = None) -> str:
    """`running, 6 000 of 12 000`, `succeeded in 41 s`; with `now` also how long it has run."""
    words, until = step.phase.value, step.ended or now
    if step.began and until and step.phase is not Phase.WAITING:
        took = figures.duration(until - step.began)
        words += f" in {took}" if step.ended else f" for {took}"
    return ", ".join(filter(None, [words, step.detail]))
