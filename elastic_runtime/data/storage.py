"""Where data lies: plain paths and URIs, opened and listed the same way through fsspec.

Plain paths and `file://` bypass fsspec when opened, because every microsecond of a range read counts. A data
folder is listed flat: sub-folders, hidden names (`.x`, `_x`) and temporaries (`x.tmp`, `x~`) are not data. A
folder that a converter was filling when it died holds `INCOMPLETE`, and is refused.
"""

from __future__ import annotations

import posixpath
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec

from elastic_runtime.data.trouble import as_error, told
from elastic_runtime.errors import ElasticError, InputError, installing, nearest

INCOMPLETE = ".convert-incomplete"
_EXTRAS = {"s3": "s3", "s3a": "s3", "minio": "s3", "gs": "gs", "gcs": "gs"}
fsspec.register_implementation("minio", "elastic_runtime.data.minio.Minio", clobber=True)


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
        remedy = installing(extra) if extra else str(missing)
        what = f"{protocol}:// needs a package that is not installed"
        raise InputError(what, where=uri, remedy=remedy) from missing
    except ValueError as unknown:
        hint = nearest(protocol, ["file", "gs", "memory", "minio", "s3"])
        raise InputError(f"no storage is known under {protocol}://", where=uri, remedy=hint) from unknown
    return fs, cast("str", path)


def needs_package(uri: str) -> bool:
    """Whether it lies where only a package leads that is not installed here."""
    try:
        fsspec.core.url_to_fs(uri)
    except ImportError:
        return True
    except ValueError:  # there is no such place: whoever opens it says so
        return False
    return False


def open_input(uri: str) -> BinaryIO:
    """Open for reading; what opening and reading raise is for `told`."""
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


@contextmanager
def folder_to_fill(uri: str) -> Iterator[Path]:
    """A folder of this machine; what is in it at the end is at `uri` then, in place of what was there."""
    path = local_path(uri)
    if path is not None:
        yield Path(path)
        return
    fs, inside = filesystem(uri)
    with tempfile.TemporaryDirectory(prefix="elasticdl-") as scratch:
        yield Path(scratch)
        with _errors_told(uri, "written"):
            if fs.exists(inside):
                fs.rm(inside, recursive=True)
            fs.put(f"{scratch}/", f"{inside.rstrip('/')}/", recursive=True)


def fetch_folder(uri: str, target: Path) -> None:
    """Copy all that is in a folder, wherever it is, into one of this machine."""
    path = local_path(uri)
    if path is not None:
        shutil.copytree(path, target, dirs_exist_ok=True)
        return
    fs, inside = filesystem(uri)
    target.mkdir(parents=True, exist_ok=True)
    with _errors_told(uri, "fetched"):
        fs.get(f"{inside.rstrip('/')}/", f"{target}/", recursive=True)


def put_file(file: Path, uri: str) -> None:
    """Copy a file of this machine to where another place is meant."""
    fs, inside = filesystem(uri)
    with _errors_told(uri, "written"):
        fs.put_file(str(file), inside)


@contextmanager
def _errors_told(uri: str, done: str) -> Iterator[None]:
    """A store's own package raises what it likes."""
    try:
        yield
    except FileNotFoundError as error:
        raise ElasticError(f"cannot be {done}: there is no such folder", where=uri) from error
    except Exception as error:
        raise as_error(error, done, uri, ElasticError) from error


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


def entries(folder: str) -> dict[str, bool]:
    """The names in a folder that are not hidden, sorted, and whether each is a folder itself."""
    fs, path = filesystem(folder)
    with told("listed", folder):
        found = {posixpath.basename(e["name"].rstrip("/")): e["type"] for e in fs.ls(path, detail=True)}
    return {name: found[name] == "directory" for name in sorted(found) if not is_hidden(name)}


def is_folder(place: str) -> bool:
    """Whether there is a folder of this name."""
    fs, path = filesystem(place)
    with told("looked up", place):
        return bool(fs.isdir(path))


def _exists(uri: str) -> bool:
    fs, path = filesystem(uri)
    with told("looked up", uri):
        return bool(fs.exists(path))


def _files_at(place: str) -> list[str]:
    fs, path = filesystem(place)
    try:
        if fs.isdir(path):
            _refuse_incomplete(fs, path)
            return [join(_uri(fs, path), name) for name in _files_in_folder(place)]
        files = [path] if fs.exists(path) else _matching(fs, path)
        for folder in {posixpath.dirname(file) for file in files}:
            _refuse_incomplete(fs, folder)
    except ElasticError:
        raise
    except Exception as error:  # a store's own package raises what it likes
        raise as_error(error, "listed", place, InputError) from error
    if not files:
        raise InputError("there is no such file or folder", where=place)
    return [_uri(fs, file) for file in files]


def _matching(fs: Any, pattern: str) -> list[str]:
    found = fs.glob(pattern) if any(mark in pattern for mark in "*?[") else []
    return sorted(path for path in found if not is_hidden(posixpath.basename(path)) and fs.isfile(path))


def _files_in_folder(folder: str) -> list[str]:
    names = entries(folder)
    files = [name for name, nested in names.items() if not nested]
    if not files:
        remedy = f"sub-folders are not searched; name one: {', '.join(list(names)[:5])}" if names else ""
        raise InputError("the folder holds no data files", where=folder, remedy=remedy)
    return files


def _refuse_incomplete(fs: Any, folder: str) -> None:
    if fs.exists(posixpath.join(folder, INCOMPLETE)):
        what = "the conversion into this folder was interrupted"
        raise InputError(what, where=_uri(fs, folder), remedy="run it again")


def _uri(fs: Any, path: str) -> str:
    """A path as users write it: plain on this machine, with its protocol elsewhere."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return path if "file" in protocols else str(fs.unstrip_protocol(path))
