"""The help of every command that takes a job's options, drawn from `JobSpec` group by group."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable

from elastic_runtime.spec.flags import Command, Flag, flags
from elastic_runtime.spec.job import JobSpec

PROGRAMS: dict[Command, tuple[str, str]] = {
    "train": ("elasticdl train", "Train a model; go on where the job of that name was left."),
    "evaluate": ("elasticdl evaluate", "Evaluate a trained model."),
    "predict": ("elasticdl predict", "Predict with a trained model."),
    "master": ("python -m elastic_runtime.master", "Start a job's master by hand."),
    "worker": (
        "python -m elastic_runtime.worker",
        "Start one worker by hand; it learns the job from the master.",
    ),
    "ps": ("python -m elastic_runtime.ps", "Start one parameter server by hand."),
}
_WIDEST, _INDENT = 110, 30


def usage(command: Command, *, title: Callable[[str], str] = str.upper) -> str:
    """The whole help text; `title` dresses the headings."""
    program, summary = PROGRAMS[command]
    lines = [f"Usage: {program} --option=value ...", "", summary]
    group = ""
    for flag in flags(JobSpec):
        if command not in flag.extra.takes:
            continue
        if flag.group != group:
            group = flag.group
            lines += ["", title(group)]
        lines += _entry(flag, command)
    return "\n".join(lines) + "\n"


def default_shown(flag: Flag, command: Command | None = None) -> str:
    """The default as users would write it, or how it is worked out; empty when there is none."""
    value = flag.default(command)
    if isinstance(value, bool):
        return str(value).lower()
    return flag.extra.shown or (f"{value:g}" if isinstance(value, float) else str(value))


def _entry(flag: Flag, command: Command) -> list[str]:
    default = default_shown(flag, command)
    note = "[required]" if command in flag.extra.required else f"[{default}]" if default else ""
    words = f"; one of {', '.join(flag.choices)}" if flag.choices else ""
    text = f"{flag.text}{words} {note}".replace("`", "").strip()
    width = min(_WIDEST, shutil.get_terminal_size().columns) - _INDENT
    first, *more = textwrap.wrap(text, max(width, 30), break_on_hyphens=False, break_long_words=False)
    option = f"  {flag.option}"
    head = [f"{option:<{_INDENT}}{first}"] if len(option) < _INDENT else [option, " " * _INDENT + first]
    return head + [" " * _INDENT + line for line in more]
