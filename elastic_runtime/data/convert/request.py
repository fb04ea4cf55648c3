"""What a conversion is asked for and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from elastic_runtime.errors import InputError, nearest

Picture: TypeAlias = tuple[int, int, int]
"""Height, width and number of colours, in this order, of a feature that is a flattened picture."""
KINDS = ("arrays", "csv", "images", "jsonl", "tfrecord")


@dataclass(frozen=True, kw_only=True)
class ConvertRequest:
    """One dataset to convert. Locations are paths or URIs; empty options mean that the source tells."""

    source: str
    """File, folder, glob or comma-separated list."""
    output: str
    """Folder that gets `data-00000`, `data-00001`, ...; such files in it are replaced."""
    kind: str = ""
    """One of `KINDS`."""
    schema: str = ""
    """`name:type,...` or `name=column:type,...`: the features to write, in which type, from which column."""
    records_per_file: int = 4096
    on_error: str = "fail"
    """`fail` at the first bad row, or `skip` and write them to `_rejects.jsonl`."""
    split: str = ""
    """`train=0.9,test=0.1`: each row goes by chance to one of these sub-folders of the output."""
    seed: int = 0
    compressor: str = "snappy"
    delimiter: str = ""
    """Of CSV; a comma, or a tab in `.tsv` and `.tab` files."""
    image_size: str = ""
    """`HEIGHTxWIDTH` to scale images to; without it all must be of the first one's size."""
    image_mode: str = ""
    """`L` (grey) or `RGB`."""
    processes: int = 0
    """How many work in parallel; 0 means one a core."""

    def __post_init__(self) -> None:
        for name, least in (("records_per_file", 1), ("processes", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} is less than {least}")
        for name, known in (
            ("kind", ("", *KINDS)),
            ("on_error", ("fail", "skip")),
            ("image_mode", ("", "L", "RGB")),
        ):
            if getattr(self, name) not in known:
                raise InputError(
                    f"unknown {name} {getattr(self, name)!r}", remedy=nearest(getattr(self, name), known)
                )
        if len(self.delimiter) > 1:
            raise InputError(f"the delimiter {self.delimiter!r} is not one character")


@dataclass(frozen=True)
class ConvertResult:
    """What was written. Rejected rows are in `rejects_file`, which is empty if there are none."""

    records: int
    files: int
    rejects: int
    rejects_file: str
    seconds: float
    pictures: Mapping[str, Picture] = field(default_factory=dict)
