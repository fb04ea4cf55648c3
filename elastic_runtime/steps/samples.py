"""A page on a dataset: how many records there are, of what kind, and the first few of them.

It is Markdown without HTML, as pipeline engines show it, so a picture is drawn with the shades that every
typeface has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from elastic_runtime.data import inspect
from elastic_runtime.data.convert.request import Picture
from elastic_runtime.data.example import ExampleError, Feature, decode
from elastic_runtime.observe import figures

SHOWN = 6
_BESIDE = 4
_PICTURES_A_ROW = 2  # so that a side panel of half a screen has room
_COLUMNS = 28
_SHADES = " ░▒▓█"
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Part:
    """A folder of RecordIO files; the only part of a dataset has no name."""

    name: str
    folder: str
    records: int
    files: int


def samples_page(
    source: str, parts: Sequence[Part], rejects: int, pictures: Mapping[str, Picture] | None = None
) -> str:
    """The whole page; `pictures` are the features to draw, of which the first is."""
    total = sum(part.records for part in parts)
    lines = [f"## {figures.plural(total, 'record')} from {_code(source)}", ""]
    if rejects:
        lines += [f"{figures.plural(rejects, 'bad row')} left out, see `_rejects.jsonl`.", ""]
    lines += ["| part | records | files |", "|---|---:|---:|"]
    lines += [f"| {part.name or 'all'} | {figures.count(part.records)} | {part.files} |" for part in parts]
    full = next((part for part in parts if part.records), None)
    records = list(inspect.head(full.folder, SHOWN)) if full else []
    return "\n".join([*lines, "", *_samples(records, pictures or {})]) + "\n"


def _samples(records: Sequence[bytes], pictures: Mapping[str, Picture]) -> Iterator[str]:
    if not records:
        return
    try:
        examples = [decode(record) for record in records]
    except ExampleError:
        yield f"The records are no `tf.train.Example`; the first has {len(records[0])} bytes."
        return
    name = next((name for name in sorted(pictures) if name in examples[0]), None)
    kinds = inspect.kinds(records[0]) or {}
    if name is None:
        yield from ("### Features, and the first records", "")
        yield from _features(kinds, examples[:_BESIDE])
    else:
        yield from ("### Features", "")
        yield from _features(kinds, [])
        yield from ("", "### The first records", "")
        yield from _gallery(examples, name, pictures[name])


def _features(kinds: Mapping[str, str], examples: Sequence[Mapping[str, Feature]]) -> Iterator[str]:
    """A line for each feature, for there may be many, with its values in the examples beside it."""
    yield f"| feature | kind | {''.join(f'{n + 1} | ' for n in range(len(examples)))}".rstrip()
    yield "|---" * (2 + len(examples)) + "|"
    for name, kind in kinds.items():
        cells = [_code(name), kind, *(_code(_short(example.get(name, []))) for example in examples)]
        yield f"| {' | '.join(cells)} |"


def _gallery(examples: Sequence[Mapping[str, Feature]], name: str, shape: Picture) -> Iterator[str]:
    pictures = [_picture(example, name, shape) for example in examples]
    yield "```"
    for row in _rows(pictures):
        for lines in zip_longest(*row, fillvalue=""):
            yield "  ".join(f"{line:<{_COLUMNS}}" for line in lines).rstrip()
        yield ""
    yield "```"


def _rows(pictures: Sequence[list[str]]) -> Iterator[Sequence[list[str]]]:
    for start in range(0, len(pictures), _PICTURES_A_ROW):
        yield pictures[start : start + _PICTURES_A_ROW]


def _picture(example: Mapping[str, Feature], name: str, shape: Picture) -> list[str]:
    """What else the record says, and below it the picture."""
    others = ", ".join(f"{key} {_short(value)}" for key, value in sorted(example.items()) if key != name)
    pixels = np.asarray(example[name], np.float64).reshape(shape)[:, :, :3].mean(axis=2)
    height, width = pixels.shape
    longest = max(height, width, _COLUMNS)
    rows, columns = (math.ceil(side * _COLUMNS / longest) for side in (height / 2, width))
    small = _shrunk(pixels, rows=rows, columns=columns)
    low, high = float(small.min()), float(small.max())
    shades = ((small - low) / ((high - low) or 1.0) * (len(_SHADES) - 1)).round().astype(int)
    return [others[:_COLUMNS], *("".join(_SHADES[shade] for shade in line) for line in shades)]


def _shrunk(pixels: npt.NDArray[Any], *, rows: int, columns: int) -> npt.NDArray[Any]:
    """Means over parts as equal as can be; a character is twice as high as wide."""
    lines = [part.mean(axis=0) for part in np.split(pixels, _cuts(len(pixels), rows))]
    return np.array([[cell.mean() for cell in np.split(line, _cuts(len(line), columns))] for line in lines])


def _cuts(length: int, parts: int) -> list[int]:
    return [length * n // parts for n in range(1, parts)]


def _short(values: Any) -> str:
    shown = [_value(value) for value in list(values)[:8]]
    more = f", ... {len(values)} values" if len(values) > 8 else ""
    return ", ".join(shown) + more


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode(errors="backslashreplace")
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"{float(value):g}"


def _code(text: str) -> str:
    """As it stands, whatever it holds."""
    plain = re.sub(r"\s+", " ", text).replace("|", "¦").replace("`", "'")
    return f"`{plain}`" if plain.strip() else ""
