"""The live view of a job on a terminal: how far, how fast, how good, on which pods, and what happened last.

It is drawn from a `LiveState` and knows nothing of a master. Log lines written to standard error meanwhile
scroll by above it. Where that is no terminal there is no live view, and the log alone tells the story.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from elastic_runtime.observe import figures, words
from elastic_runtime.observe.live_state import LiveState, PodState

_HEAD_LINES = 4
_EVENT_LINES = 5
_NAME_WIDTH = 30
_STATUS_STYLES = {"succeeded": "bold green", "failed": "bold red", "stopped": "bold yellow"}
_SIGNS = {"running": ("●", "green"), "pending": ("○", "yellow"), "ended": ("✓", "dim"), "lost": ("✗", "red")}
_ASCII = str.maketrans({"●": "*", "○": "o", "✓": "-", "✗": "x"})


class LiveView:
    """Shows one state after the other in the same place; gone without a trace when it is left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            vertical_overflow="crop",
        )

    def show(self, state: LiveState) -> None:
        """Draw this state in place of the one before; `OSError` if the terminal is gone."""
        try:
            if not self._console.is_terminal:  # any more
                raise OSError("the terminal is gone")
            self._live.update(_Screen(state), refresh=True)
        except OSError:
            self._stop()
            raise

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone need not be cleared
            self._live.stop()


def live_view() -> LiveView | None:
    """A live view for this process, or None if nobody would see it."""
    console = Console(stderr=True)
    return LiveView(console) if console.is_terminal and not console.is_dumb_terminal else None


class _Screen:
    """A state, laid out for the size the terminal has when it is drawn."""

    def __init__(self, state: LiveState) -> None:
        self._state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = max(_HEAD_LINES, (options.height or console.height) - 1)
        lines = [*_head(self._state, options.max_width), *_body(self._state, height - _HEAD_LINES)]
        for line in lines:
            if isinstance(line, Text):
                line.no_wrap, line.overflow = True, "crop" if options.ascii_only else "ellipsis"
                line.plain = _sayable(line.plain, options)
        yield Group(*lines)


def _sayable(text: str, options: ConsoleOptions) -> str:
    """The text, character for character, as the terminal can show it without being steered by it."""
    text = "".join(character if character.isprintable() else " " for character in text)
    text = text.translate(_ASCII) if options.ascii_only else text
    return text.encode(options.encoding, "replace").decode(options.encoding)


def _head(state: LiveState, width: int) -> list[Text | Table]:
    status = state.message or state.status
    epochs = f"epoch {state.epoch} of {state.epochs}" if state.epochs and state.epoch else ""
    title = Text.assemble((state.job, "bold"), "  ", (status, _STATUS_STYLES.get(state.status, "cyan")))
    title.append("".join(f"  {part}" for part in (epochs, figures.duration(state.seconds)) if part))
    loss = f"loss {figures.figure(state.loss)}" if state.loss is not None else ""
    pace = f"{figures.figure(state.records_per_second)} records/s"
    readings = _fitting([pace, loss, f"version {state.version}"], width)
    fuller = [_fitting([readings, metrics], width) for metrics in _metrics(state)]
    return [title, _progress(state, width), Text(max([readings, *fuller], key=len)), Text()]


def _metrics(state: LiveState) -> Iterator[str]:
    """The last evaluation: whole, without its version, and with ever fewer metrics."""
    found = list((state.metrics or {}).items())
    if found:
        yield f"{words.metrics(dict(found))} (version {state.evaluated_version})"
    for number in range(len(found), 0, -1):
        yield words.metrics(dict(found[:number]))


def _progress(state: LiveState, width: int) -> Table | Text:
    done = figures.count(state.records_done)
    if not state.records:
        return Text(f"{done} records")
    share = f"{100 * state.records_done // state.records} %"
    left = f"{figures.duration(state.seconds_left)} left" if state.seconds_left is not None else ""
    facts = _fitting([share, f"{done} of {figures.count(state.records)} records", left], max(8, width - 14))
    line = Table.grid(expand=True, padding=(0, 1))
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(ProgressBar(total=state.records, completed=min(state.records_done, state.records)), facts)
    return line


def _body(state: LiveState, room: int) -> list[Text]:
    prefix = f"elasticdl-{state.job}-"
    events = [
        Text.assemble((f"{figures.duration(at):>12}  ", "dim"), text.replace(prefix, ""))
        for at, text in state.events[-_EVENT_LINES:]
    ]
    room_for_pods = room - len(events) - 1
    if room_for_pods < 1:
        return _pods(state.pods, prefix, room)
    return [*_pods(state.pods, prefix, room_for_pods), Text(), *events]


def _pods(pods: Sequence[PodState], prefix: str, room: int) -> list[Text]:
    """A line for each pod that lives or was lost, or without the room their numbers and the troubled."""
    if room < 1:
        return []
    shown = [pod for pod in pods if pod.state != "ended"] + [p for p in reversed(pods) if p.lost]
    if len(shown) <= room:
        return _lines(shown, prefix)
    troubled = [pod for pod in shown if pod.state != "running"]
    census = _census(pods)[:room]
    return [*census, *_lines(troubled[: room - len(census)], prefix)]


def _lines(pods: Sequence[PodState], prefix: str) -> list[Text]:
    """Sign, name and words of each pod, in columns."""
    names = [pod.name.removeprefix(prefix) for pod in pods]
    width = min(_NAME_WIDTH, max(map(len, names), default=0))
    signs = [_SIGNS["lost" if pod.lost else pod.state] for pod in pods]
    return [
        Text.assemble((f"{sign} ", style), f"{name:<{width}}  ", (pod.words, "dim"))
        for pod, name, (sign, style) in zip(pods, names, signs, strict=True)
    ]


def _census(pods: Iterable[PodState]) -> list[Text]:
    roles: dict[str, Counter[str]] = {}
    for pod in pods:
        roles.setdefault(pod.role, Counter())["lost" if pod.lost else pod.state] += 1
    lines = []
    for role, states in roles.items():
        line = Text(f"{figures.plural(states.total(), words.role(role))}:")
        for state, (sign, style) in _SIGNS.items():
            if states[state]:
                line.append(f"  {sign} ", style).append(
                    f"{figures.count(states[state])} {words.state(state)}"
                )
        lines.append(line)
    return lines


def _fitting(parts: Iterable[str], width: int) -> str:
    """As many of the parts, in order, as the width has room for; the first in any case."""
    line = ""
    for part in parts:
        longer = f"{line}   {part}" if line and part else line or part
        if line and len(longer) > width:
            break
        line = longer
    return line
