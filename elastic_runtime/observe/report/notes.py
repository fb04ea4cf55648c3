"""Words above a plot that say what its vertical lines are, in as many rows as keep them apart.

How wide a chart will be is not known when it is drawn, so words are placed for the narrowest plot where the
style sheet shows what is `wide`; those that would touch on a phone are hidden there, and their lines stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastic_runtime.observe.report.markup import Markup, el, percent
from elastic_runtime.observe.report.scales import Axis

_ROW, _MOST_ROWS = 15, 4
_CHARACTER = 6.4
_PHONE, _WIDE = 185, 550
"""Of a plot, in pixels."""


@dataclass(frozen=True, slots=True)
class Note:
    """Words beside a line at `x`, or without a line, centred there."""

    x: float
    words: str
    class_: str = ""
    line: bool = True


def annotate(
    notes: Sequence[Sequence[Note]], x: Axis, *, bottom: float, top: float
) -> tuple[list[Markup], list[Markup], float]:
    """Lines from `bottom` up to their words, the words above `top`, and how high these are.

    The first of `notes` are next to the plot; in each, those that matter most come first.
    """
    rows, wordless = _stacked(notes, x)
    ends = [(note, top - _ROW * at) for at, row in enumerate(rows) for note in row]
    ends += [(note, 0.0) for note in wordless]
    lines = [_line(note, x, end, bottom) for note, end in ends if note.line]
    words = [
        _words(note, x, top - _ROW * at - 3, hides=note not in always)
        for at, row in enumerate(rows)
        for always in [_with_room(row, x, _PHONE)]
        for note in row
    ]
    return lines, words, _ROW * len(rows)


def _stacked(notes: Sequence[Sequence[Note]], x: Axis) -> tuple[list[list[Note]], list[Note]]:
    """Rows of notes, from the plot upwards, and those that have no words or found no room in any row."""
    rows: list[list[Note]] = []
    wordless: list[Note] = []
    for group in notes:
        rest = [note for note in group if note.words]
        while len(rows) < _MOST_ROWS and (row := _with_room(rest, x, _WIDE)):
            rows.append(row)
            rest = [note for note in rest if note not in row]
        wordless += [*(note for note in group if not note.words), *rest]
    return rows, wordless


def _with_room(notes: Sequence[Note], x: Axis, width: float) -> list[Note]:
    """Those whose words do not touch words before them; of centred ones all or none."""
    taken: list[tuple[float, float]] = []
    found = []
    for note in notes:
        length = _CHARACTER * len(note.words) + 8
        left = x.at(note.x) * width - length * (0.5 if not note.line else 1 if _ends(note, x) else 0)
        if all(left + length <= begin or end <= left for begin, end in taken):
            taken.append((left, left + length))
            found.append(note)
    is_whole = sum(not note.line for note in found) == sum(not note.line for note in notes)
    return [note for note in found if is_whole or note.line]


def _ends(note: Note, x: Axis) -> bool:
    """Whether the words end at their line, for want of room behind it."""
    return x.at(note.x) > 0.6


def _line(note: Note, x: Axis, end: float, bottom: float) -> Markup:
    place = percent(x.at(note.x))
    return el("line", x1=place, x2=place, y1=end, y2=bottom, class_=f"rule note {note.class_}")


def _words(note: Note, x: Axis, y: float, *, hides: bool) -> Markup:
    anchor, offset = ("middle", 0) if not note.line else ("end", -5) if _ends(note, x) else ("start", 5)
    class_ = f"note {note.class_}{' wide' if hides else ''}"
    return el("text", note.words, x=percent(x.at(note.x)), y=y, dx=offset, text_anchor=anchor, class_=class_)
