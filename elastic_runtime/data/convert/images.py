"""A folder of images, one sub-folder a class: `image` (floats 0-255, flattened), `label` and `class`.

Labels number the classes in alphabetical order. All records have one shape: that of the first image, unless a
size is given to which all are scaled.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from elastic_runtime.data import storage
from elastic_runtime.data.convert.request import ConvertRequest
from elastic_runtime.data.convert.rows import Row, Source, open_plain
from elastic_runtime.data.example import encode
from elastic_runtime.errors import InputError, installing


def open_images(request: ConvertRequest) -> Source:
    """All images of all classes."""
    files = _list(request.source)
    first = _first(files, request.source)
    mode = request.image_mode or ("L" if first.mode in ("1", "L") else "RGB")
    size = parse_size(request.image_size) or first.size
    encoder = _Encoder(mode, size, scale=bool(request.image_size))
    width, height = size
    pictures = {"image": (height, width, 1 if mode == "L" else 3)}
    names = [file for file, _, _ in files]
    return Source(names, _rows(files), encoder, total=len(files), unit="image", pictures=pictures)


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
    if not storage.is_folder(source):
        raise InputError("there is no such folder", where=source)
    names = storage.entries(source)
    for name, nested in names.items():
        if not nested:
            remedy = "each class of images is a sub-folder; move other files away"
            raise InputError(
                "a file beside the class folders", where=storage.join(source, name), remedy=remedy
            )
    if not names:
        raise InputError("the folder holds no sub-folders, one for each class", where=source)
    classes = [(label, name, storage.join(source, name)) for label, name in enumerate(names)]
    return [(file, label, name) for label, name, folder in classes for file in storage.list_files(folder)]


def _rows(files: list[tuple[str, int, str]]) -> Iterator[Row]:
    for number, (file, label, name) in enumerate(files):
        yield Row(file, number, (_bytes(file), label, name))


def _bytes(file: str) -> bytes:
    with open_plain(file) as data:
        return data.read()


def parse_size(text: str) -> tuple[int, int] | None:
    """The width and height of `HEIGHTxWIDTH`; None if none is given."""
    if not text:
        return None
    height, _, width = text.partition("x")
    if not (height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise InputError(f"image_size {text!r} is not HEIGHTxWIDTH", remedy="for example 28x28")
    return int(width), int(height)


def _first(files: list[tuple[str, int, str]], source: str) -> Any:
    _pillow()
    for file, _, _ in files:
        with contextlib.suppress(InputError):
            return _open(_bytes(file))
    raise InputError("it holds no readable image", where=source)


def _open(content: bytes) -> Any:
    pillow = _pillow()
    try:
        return pillow.ImageOps.exif_transpose(pillow.Image.open(io.BytesIO(content)))
    except Exception as error:  # noqa: BLE001 - there is nothing that Pillow's decoders do not raise
        raise InputError(f"it is no readable image: {error}") from None


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as missing:
        raise InputError("images need Pillow", remedy=installing("images")) from missing
    return PIL
