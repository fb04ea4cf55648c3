"""How lists are printed: a table for people, JSON for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE = 200


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings, numbers to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    lines = [list(row) for row in rows]
    for place, name in enumerate(columns):
        is_number = bool(lines) and all(isinstance(line[place], int | float) for line in lines)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text(_cell(value)) for value in line))
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)


def show_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))


def moment(seconds: float) -> str:
    """A point in time as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"


def _cell(value: object) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)
