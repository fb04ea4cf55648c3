"""Charts as inline SVG that fits any width without a script.

Places along the width are percentages and places down the height are pixels, so text keeps its size on a
phone; only the curves, in a stretched inner picture, follow the width. Ticks to the left and labels to the
right lie in margins that the style sheet gives all charts, so those over the same time are in line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from elastic_runtime.observe import figures
from elastic_runtime.observe.report.markup import Markup, el, join, percent
from elastic_runtime.observe.report.notes import Note, annotate
from elastic_runtime.observe.report.scales import Axis
from elastic_runtime.observe.thinning import Point, decimate

Item = TypeVar("Item")

WIDTH = 1000
COLUMNS = 240
_ROW = 18
_TOP = 23

_SHAPES = {
    "joined": "M-4.5 3.5L0 -4.5L4.5 3.5Z",
    "lost": "M-4.5 -3.5L0 4.5L4.5 -3.5Z",
    "left": "M0 -4.5L4.5 0L0 4.5L-4.5 0Z",
    "note": "M-3.5 -3.5H3.5V3.5H-3.5Z",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something at a time: `shape` is joined, lost, left or note; `title` is said when pointed at."""

    x: float
    shape: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    """A named row of marks below a plot."""

    name: str
    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True)
class Plot:
    """The rectangle curves are drawn in."""

    x: Axis
    y: Axis
    height: int

    def top(self, value: float) -> float:
        """Pixels from the plot's top."""
        return self.height * (1 - self.y.at(value))

    def line(self, points: Sequence[Point], *, class_: str) -> Markup:
        """A curve, interrupted where it is not a number."""
        path, pen_down = [], False
        for x, y in decimate(points, COLUMNS):
            if math.isfinite(y):
                path.append(
                    f"{'L' if pen_down else 'M'}{self._x(x)} {self.top(y):.1f}{'' if pen_down else 'h0'}"
                )
            pen_down = math.isfinite(y)
        return self._curve("".join(path), class_)

    def steps(self, points: Sequence[Point], *, class_: str, filled: bool = False) -> Markup:
        """A value that holds until it changes, to the right end; with `filled`, the area below it."""
        if not points:
            return Markup()
        (x, y), *rest = decimate(points, COLUMNS)
        path = [
            f"M{self._x(x)} {self.height}V{self.top(y):.1f}" if filled else f"M{self._x(x)} {self.top(y):.1f}"
        ]
        path += [f"H{self._x(x)}V{self.top(y):.1f}" for x, y in rest]
        path.append(f"H{WIDTH}" + (f"V{self.height}Z" if filled else ""))
        return self._curve("".join(path), class_)

    def dot(self, x: float, y: float, *, class_: str = "dot") -> Markup:
        """A point of note on a curve."""
        return el("circle", cx=percent(self.x.at(x)), cy=self.top(y), r=3.5, class_=class_)

    def end_label(self, x: float, y: float) -> list[Markup]:
        """The last point of a curve, with its value to its right."""
        if not math.isfinite(y):
            return []
        words = figures.figure(y) if abs(y) < 1e5 else figures.power(y)
        value = el("text", words, x=percent(self.x.at(x)), y=self.top(y) + 4, dx=9, class_="label")
        return [self.dot(x, y), value]

    def side_labels(self, labels: Iterable[tuple[str, float, str]]) -> Markup:
        """Words to the right of the plot at their values, moved apart where they would touch."""
        parts, free = [], -math.inf
        for words, value, class_ in sorted(labels, key=lambda label: -label[1]):
            place = max(self.top(value) + 4, free)
            free = place + 15
            parts.append(el("text", words, x="100%", y=place, dx=9, class_=class_))
        return join(parts)

    def rule(self, x: float, *, class_: str) -> Markup:
        """A vertical line through the plot."""
        place = percent(self.x.at(x))
        return el("line", x1=place, x2=place, y1=0, y2=self.height, class_=f"rule {class_}")

    def _x(self, x: float) -> str:
        return f"{self.x.at(x) * WIDTH:.1f}"

    def _curve(self, path: str, class_: str) -> Markup:
        curve = el("path", d=path, class_=class_, vector_effect="non-scaling-stroke")
        box = {"viewBox": f"0 0 {WIDTH} {self.height}", "preserveAspectRatio": "none"}
        return el("svg", curve, width="100%", height=self.height, class_="curve", **box)


def draw(
    plot: Plot,
    layers: Iterable[Markup],
    *,
    title: str,
    summary: str,
    rows: Sequence[Row] = (),
    notes: Sequence[Sequence[Note]] = (),
) -> Markup:
    """The whole chart: axes with names and units, the layers in their order, marks below and words above."""
    floor = plot.height + (_ROW * len(rows) + 8 if rows else 0)
    lines, words, above = annotate(notes, plot.x, bottom=plot.height, top=-_TOP)
    top = _TOP + above
    inside = [
        *_grid(plot, floor),
        *lines,
        *layers,
        *words,
        *(_row(plot.x, row, plot.height + 8 + _ROW * (i + 0.5)) for i, row in enumerate(rows)),
        el("text", plot.y.name, x=0, y=-11, class_="axis-name y"),
        el("text", plot.x.name, x="100%", y=floor + 34, text_anchor="end", class_="axis-name x"),
    ]
    frame = el("g", *inside, transform=f"translate(0 {top})")
    parts = [el("title", title), el("desc", summary), frame]
    return el("svg", *parts, role="img", class_="chart", height=top + floor + 40)


def _grid(plot: Plot, floor: float) -> list[Markup]:
    parts = []
    for value, name in plot.y.ticks:
        y = plot.top(value)
        parts.append(el("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"))
        parts.append(el("text", name, x=0, y=y + 4, dx=-8, text_anchor="end", class_="tick"))
    for value, name in plot.x.ticks:
        x = percent(plot.x.at(value))
        parts.append(el("line", x1=x, x2=x, y1=floor, y2=floor + 5, class_="axis"))
        parts.append(el("text", name, x=x, y=floor + 18, text_anchor="middle", class_="tick"))
    parts.append(el("line", x1=0, x2="100%", y1=floor, y2=floor, class_="axis"))
    return parts


def _row(x: Axis, row: Row, middle: float) -> Markup:
    name = el("text", row.name, x=0, y=middle + 4, dx=-8, text_anchor="end", class_="tick")
    rule = el("line", x1=0, x2="100%", y1=middle, y2=middle, class_="grid")
    groups = together(row.marks, lambda mark: x.at(mark.x), 1 / 60)
    return join([rule, name, *(glyph(group, x, middle) for group in groups)])


def glyph(marks: Sequence[Mark], x: Axis, middle: float) -> Markup:
    """One shape for the marks of one place; more marks make it larger."""
    first = marks[0]
    title = first.title if len(marks) == 1 else f"{first.title} and {len(marks) - 1} more"
    scale = min(1.4, 0.9 + 0.1 * len(marks))
    shape = el("path", el("title", title), d=_SHAPES[first.shape], transform=f"scale({scale:.2f})")
    return el("svg", shape, x=percent(x.at(first.x)), y=middle, class_=f"mark {first.shape}")


def together(items: Iterable[Item], place: Callable[[Item], float], reach: float) -> list[list[Item]]:
    """The items in the order of their places (0 to 1), those within reach of a first one in one group."""
    groups: list[list[Item]] = []
    for item in sorted(items, key=place):
        if groups and place(item) - place(groups[-1][0]) < reach:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups
