"""Sets and columns of numbers as small JSON values, for the journal and for checkpoints.

A set of shards is written as the runs of its members or as a compressed bitmap, whichever is shorter: in
the order of the data the runs are few, with shuffling the bitmap wins.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


def runs(mask: Mask) -> npt.NDArray[np.int64]:
    """The members as rows [start, end) of merged intervals."""
    framed = np.zeros(mask.size + 2, bool)
    framed[1:-1] = mask
    return np.flatnonzero(framed[1:] != framed[:-1]).reshape(-1, 2)


def pack_mask(mask: Mask) -> list[int] | str:
    """A set as the flat list of its runs, or as text if that is shorter."""
    flat: list[int] = runs(mask).ravel().tolist()
    if len(flat) < 32:
        return flat
    text = _to_text(np.packbits(mask).tobytes())
    return text if len(text) < len(json.dumps(flat)) else flat


def unpack_mask(packed: list[int] | str, size: int) -> Mask:
    """The inverse of `pack_mask`."""
    if isinstance(packed, str):
        bits = np.frombuffer(_from_text(packed), np.uint8)
        return np.unpackbits(bits, count=size).astype(bool)
    mask = np.zeros(size, bool)
    for start, end in zip(packed[::2], packed[1::2], strict=True):
        mask[start:end] = True
    return mask


def pack_numbers(numbers: npt.NDArray[np.int64]) -> str:
    """A column of numbers as text; neighbours that differ little cost little."""
    return _to_text(np.diff(numbers, prepend=0).astype("<i8").tobytes())


def unpack_numbers(text: str) -> npt.NDArray[np.int64]:
    """The inverse of `pack_numbers`."""
    return np.cumsum(np.frombuffer(_from_text(text), "<i8"), dtype=np.int64)


def _to_text(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 6)).decode()


def _from_text(text: str) -> Any:
    return zlib.decompress(base64.b64decode(text))
