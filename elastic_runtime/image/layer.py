"""A folder as one layer of an image: an archive whose bytes depend on nothing but the folder's content.

Owners, times and the order of a directory are left out, so the same files make the same digest, and a cache
or a registry knows them again. Any user may read them. In the image the folder is exactly this one: what
layers below have in its place is hidden.
"""

from __future__ import annotations

import gzip
import hashlib
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from elastic_runtime.errors import ElasticError
from elastic_runtime.image.registry.blob import Blob
from elastic_runtime.image.registry.wire import CHUNK

_LEVEL = 6  # of compression; more takes its time and gains nothing
_HIDES_WHAT_IS_BELOW = ".wh..wh..opq"


@dataclass(frozen=True, slots=True)
class Layer:
    """The archive, its digest before compression, and what an image's history says of it."""

    blob: Blob
    diff_id: str
    said: str


def pack(folder: Path, *, inside: str, file: Path, said: str) -> Layer:
    """Writes the layer that puts `folder` at the absolute path `inside` into `file`."""
    try:
        with file.open("wb") as out:
            packed = _Hashing(out)
            with gzip.GzipFile("", "wb", _LEVEL, packed, mtime=0) as compressed:
                plain = _Hashing(compressed)
                with tarfile.open(mode="w|", fileobj=plain, format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
                    _write(archive, folder, inside.strip("/"))
    except OSError as error:
        raise ElasticError(f"cannot be packed: {error}", where=str(folder)) from error
    return Layer(Blob(packed.digest, packed.size, lambda: _chunks(file)), plain.digest, said)


def _write(archive: tarfile.TarFile, folder: Path, inside: str) -> None:
    archive.addfile(_entry(inside, tarfile.DIRTYPE, 0o755))
    archive.addfile(_entry(f"{inside}/{_HIDES_WHAT_IS_BELOW}", tarfile.REGTYPE, 0o644))
    for path in sorted(folder.rglob("*")):
        name, about = f"{inside}/{path.relative_to(folder).as_posix()}", path.lstat()
        if stat.S_ISDIR(about.st_mode):
            archive.addfile(_entry(name, tarfile.DIRTYPE, 0o755))
        elif stat.S_ISLNK(about.st_mode):
            entry = _entry(name, tarfile.SYMTYPE, 0o777)
            entry.linkname = str(path.readlink())
            archive.addfile(entry)
        else:
            entry = _entry(name, tarfile.REGTYPE, 0o755 if about.st_mode & stat.S_IXUSR else 0o644)
            entry.size = about.st_size
            with path.open("rb") as content:
                archive.addfile(entry, content)


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)  # of no time, owned by root
    entry.type, entry.mode = kind, mode
    return entry


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            yield chunk


class _Hashing:
    """Passes on what is written, and knows its digest and size."""

    def __init__(self, out: BinaryIO | gzip.GzipFile) -> None:
        self._out, self._sum, self.size = out, hashlib.sha256(), 0

    @property
    def digest(self) -> str:
        return f"sha256:{self._sum.hexdigest()}"

    def write(self, data: bytes) -> int:
        self._sum.update(data)
        self.size += len(data)
        return self._out.write(data)

    def flush(self) -> None:
        self._out.flush()
