"""Where data lies: plain paths and URIs, opened and listed the same way through fsspec.

Plain paths and `file://` bypass fsspec when opened, because every microsecond of a range read counts. A data
folder is listed flat: sub-folders, hidden names (`.x`, `_x`) and temporaries (`x.tmp`, `x~`) are not data. A
folder that a converter was filling when it died holds `INCOMPLETE`, and is refused.
"""

from __future__ import annotations

import os
import posixpath
from typing import Any, BinaryIO, cast

import fsspec

from elastic_runtime.errors import InputError, nearest

INCOMPLETE = ".convert-incomplete"
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}


def local_path(uri: str) -> str | None:
    """The plain path of a file on this machine, or None if the URI points elsewhere."""
    if uri.startswith("file://"):
        return uri.removeprefix("file://")
    return None if "://" in uri else uri


def filesystem(uri: str) -> tuple[Any, str]:
    """The fsspec file system that holds `uri`, and the path in it."""
    protocol = uri.split("://", 1)[0] if "://" in uri else "file"
    try:
        fs, path = fsspec.core.url_to_fs(uri)
    except ImportError as missing:
        extra = _EXTRAS.get(protocol)
        remedy = f"pip install 'elasticdl[{extra}]'" if extra else str(missing)
        raise InputError(
            f"{protocol}:// needs a package that is not installed", where=uri, remedy=remedy
        ) from missing
    except ValueError as unknown:
        hint = nearest(protocol, ["file", "gs", "memory", "s3"])
        raise InputError(f"no storage is known under {protocol}://", where=uri, remedy=hint) from unknown
    return fs, cast("str", path)


def open_input(uri: str) -> BinaryIO:
    """Open for reading; an `OSError` tells why it cannot be."""
    path = local_path(uri)
    if path is not None:
        return open(path, "rb")
    fs, inside = filesystem(uri)
    return cast("BinaryIO", fs.open(inside, "rb"))


def open_output(uri: str) -> BinaryIO:
    """Open for writing, replacing what is there."""
    path = local_path(uri)
    if path is not None:
        return open(path, "wb")
    fs, inside = filesystem(uri)
    return cast("BinaryIO", fs.open(inside, "wb"))


def join(folder: str, *names: str) -> str:
    """The URI of something inside a folder."""
    return posixpath.join(folder, *names)


def absolute(uri: str) -> str:
    """The one spelling of a location that `list_files` uses."""
    return _uri(*filesystem(uri)).rstrip("/")


def is_hidden(name: str) -> bool:
    """Whether a file of this name is no data: hidden, or a temporary of somebody's."""
    return name.startswith((".", "_")) or name.endswith((".tmp", "~"))


def list_files(origin: str) -> list[str]:
    """The files meant by a file, folder, glob or comma-separated list of these, in that order; never none."""
    places = [place.strip() for place in origin.split(",") if place.strip()]
    if not places:
        raise InputError(
            "no data location is given", remedy="name a file, folder, glob or a list with commas"
        )
    if len(places) > 1 and _exists(origin):
        places = [origin]
    files = [file for place in places for file in _files_at(place)]
    if len(set(files)) < len(files):
        raise InputError("the same file is named twice", where=next(f for f in files if files.count(f) > 1))
    return files


def holds_only_folders(place: str) -> bool:
    """Whether this is a folder of nothing but folders, as images sorted into classes are."""
    fs, path = filesystem(place)
    if not fs.isdir(path):
        return False
    entries = {posixpath.basename(e["name"].rstrip("/")): e["type"] for e in fs.ls(path, detail=True)}
    kinds = {kind for name, kind in entries.items() if not is_hidden(name)}
    return kinds == {"directory"}


def _exists(uri: str) -> bool:
    fs, path = filesystem(uri)
    return bool(fs.exists(path))


def _files_at(place: str) -> list[str]:
    fs, path = filesystem(place)
    try:
        if fs.isdir(path):
            found = _files_in_folder(fs, path, place)
        elif fs.exists(path):
            found = [path]
        elif any(mark in place for mark in "*?["):
            found = [p for p in fs.glob(path) if not is_hidden(posixpath.basename(p)) and fs.isfile(p)]
            if not found:
                raise InputError(
                    "no file matches", where=place, remedy="quote the pattern and check its folder"
                )
        else:
            raise InputError(
                "there is no such file or folder", where=place, remedy="check the path for misspellings"
            )
    except OSError as error:
        raise InputError(f"cannot be listed: {error.strerror or error}", where=place) from error
    return [_uri(fs, p) for p in sorted(found)]


def _files_in_folder(fs: Any, path: str, place: str) -> list[str]:
    entries = {posixpath.basename(e["name"].rstrip("/")): e for e in fs.ls(path, detail=True)}
    if INCOMPLETE in entries:
        raise InputError(
            "its conversion was interrupted", where=place, remedy="run the same conversion again"
        )
    found = [e["name"] for name, e in entries.items() if e["type"] != "directory" and not is_hidden(name)]
    if not found:
        folders = sorted(
            name for name, e in entries.items() if e["type"] == "directory" and not is_hidden(name)
        )
        remedy = (
            f"sub-folders are not searched; name one: {', '.join(folders[:5])}"
            if folders
            else "put data there"
        )
        raise InputError("the folder holds no data files", where=place, remedy=remedy)
    return found


def _uri(fs: Any, path: str) -> str:
    return (
        path if os.path.isabs(path) and "file" in _protocols(fs) else cast("str", fs.unstrip_protocol(path))
    )


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
