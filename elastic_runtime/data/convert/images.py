"""A folder of images, one sub-folder a class: `image` (floats 0-255, flattened), `label` and `class`.

Labels number the classes in alphabetical order. All records have one shape: that of the first image, unless a
size is given to which all are scaled.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from elastic_runtime.data import storage
from elastic_runtime.data.convert.request import ConvertRequest
from elastic_runtime.data.convert.rows import Row, Source, open_plain
from elastic_runtime.data.example import encode
from elastic_runtime.errors import InputError


def open_images(request: ConvertRequest) -> Source:
    """All images of all classes."""
    files = _list(request.source)
    first = _open(_bytes(files[0][0]))
    mode = request.image_mode or ("L" if first.mode in ("1", "L") else "RGB")
    size = _size(request.image_size) or first.size
    encoder = _Encoder(mode, size, scale=bool(request.image_size))
    return Source([file for file, _, _ in files], _rows(files), encoder, total=len(files), unit="image")


@dataclass(frozen=True)
class _Encoder:
    mode: str
    size: tuple[int, int]
    scale: bool

    def __call__(self, data: tuple[bytes, int, str]) -> bytes:
        content, label, name = data
        image = _open(content)
        if image.size != self.size and not self.scale:
            was, first = ("{1}x{0}".format(*size) for size in (image.size, self.size))
            raise InputError(f"it is of size {was}, the first was {first}", remedy="give --image_size")
        if image.size != self.size:
            image = image.resize(self.size)
        pixels = np.asarray(image.convert(self.mode), np.float32)
        return encode({"image": pixels, "label": label, "class": name})


def _list(source: str) -> list[tuple[str, int, str]]:
    fs, root = storage.filesystem(source)
    if not fs.isdir(root):
        raise InputError("there is no such folder", where=source)
    entries = [e for e in fs.ls(root, detail=True) if not storage.is_hidden(posixpath.basename(e["name"]))]
    for entry in entries:
        if entry["type"] != "directory":
            remedy = "each class of images is a sub-folder; move other files away"
            raise InputError("a file beside the class folders", where=entry["name"], remedy=remedy)
    folders = sorted(entry["name"] for entry in entries)
    if not folders:
        raise InputError(
            "the folder holds no class folders", where=source, remedy="each class is a sub-folder"
        )
    found = []
    for label, folder in enumerate(folders):
        name = posixpath.basename(folder)
        found += [(file, label, name) for file in storage.list_files(storage.join(source, name))]
    return found


def _rows(files: list[tuple[str, int, str]]) -> Iterator[Row]:
    for number, (file, label, name) in enumerate(files):
        yield Row(file, number, (_bytes(file), label, name))


def _bytes(file: str) -> bytes:
    with open_plain(file) as data:
        return data.read()


def _size(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    height, _, width = text.partition("x")
    if not (height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise InputError(f"image_size {text!r} is not HEIGHTxWIDTH", remedy="for example 28x28")
    return int(width), int(height)


def _open(content: bytes) -> Any:
    try:
        from PIL import Image, ImageOps
    except ImportError as missing:
        raise InputError("images need Pillow", remedy="pip install 'elasticdl[images]'") from missing
    try:
        image = Image.open(io.BytesIO(content))
        image.load()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"it is no readable image: {error}") from None
    return ImageOps.exif_transpose(image)
