"""Checkpoints on disk: complete or absent, and readable by any number of parameter servers, or by none.

A checkpoint is a folder `version-<N>` with one `variables-<i>-of-<n>.ckpt` for each writer, the master's
`ledger.json`, and `checkpoint.json`, which lists them and tells which run of a job it is of. It grows under
a name that begins with a dot and is renamed when it is whole. This module knows folders; `partfile` knows
what is inside a file.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps import partfile
from elastic_runtime.ps.partfile import PartState, Values

__all__ = [
    "Checkpoint",
    "PartState",
    "finish",
    "newest",
    "prune",
    "read",
    "read_part",
    "remove_beyond",
    "remove_stale",
    "write_part",
]

log = logging.getLogger(__name__)
_FORMAT = 1
_FOLDER = re.compile(r"version-(\d+)")
_STALE = re.compile(r"\.(version-\d+)\.(.+)")
_REPLACED = "replaced"


@dataclass(frozen=True)
class Checkpoint(PartState[np.ndarray]):
    """The whole model, and the ledger it belongs to."""

    ledger: dict[str, Any] = field(default_factory=dict)


def write_part(directory: pathlib.Path, index: int, parts: int, state: PartState[Values]) -> pathlib.Path:
    """Write this writer's part into a growing checkpoint and return its file."""
    return partfile.write(directory / _name(index, parts), index, parts, state)


def finish(
    tmp_dir: pathlib.Path, final_dir: pathlib.Path, version: int, ledger: dict[str, Any], *, run: str = ""
) -> None:
    """Make a checkpoint of the parts, which must all be there; it replaces one of the same version."""
    files = _complete_parts(tmp_dir, version)
    facts = {path.name: {"size": path.stat().st_size, "crc": partfile.crc_of(path)} for path in files}
    manifest = {
        "format": _FORMAT,
        "version": version,
        "run": run,
        "layout": partfile.read_header(files[0])["layout_digest"],
        "files": facts,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    with _told(tmp_dir):
        _write_json(tmp_dir / "ledger.json", ledger)
        _write_json(tmp_dir / "checkpoint.json", manifest)
        _sync(tmp_dir)
        replaced = final_dir.with_name(f".{final_dir.name}.{_REPLACED}")
        if final_dir.exists():
            if _run_of(final_dir) != run:
                log.warning("%s was of another job, or of an earlier run: it is replaced", final_dir)
            final_dir.rename(replaced)
        tmp_dir.rename(final_dir)
        _sync(final_dir.parent)
        shutil.rmtree(replaced, ignore_errors=True)


def read(directory: pathlib.Path) -> Checkpoint:
    """All of a checkpoint."""
    whole = read_part(directory, 0, 1)
    return Checkpoint(**vars(whole), ledger=_read_json(directory / "ledger.json"))


def read_part(directory: pathlib.Path, index: int, parts: int) -> PartState[np.ndarray]:
    """What parameter server `index` of `parts` holds of a checkpoint, whoever wrote it."""
    return partfile.gather([directory / name for name in _manifest(directory)["files"]], index, parts)


def newest(
    checkpoint_dir: pathlib.Path, *, upto: int | None = None, run: str | None = None
) -> pathlib.Path | None:
    """The newest whole checkpoint, not above `upto`, of that run; damaged ones are passed over aloud."""
    for folder in reversed(_folders(checkpoint_dir)):
        if upto is not None and _version_of(folder) > upto:
            continue
        if run is not None and _run_of(folder) != run:
            continue
        try:
            _verify(folder)
        except ElasticError as error:
            log.warning("passing over the checkpoint %s: %s", folder, error)
        else:
            return folder
    return None


def prune(checkpoint_dir: pathlib.Path, keep_max: int, *, upto: int, run: str = "") -> None:
    """Delete all but the newest `keep_max` checkpoints of that run up to the one just saved; 0 keeps all."""
    if keep_max <= 0:
        return
    complete = [folder for folder in _folders(checkpoint_dir) if _run_of(folder) == run]
    _remove([folder for folder in complete if _version_of(folder) <= upto][:-keep_max])


def remove_beyond(checkpoint_dir: pathlib.Path, version: int, *, run: str) -> None:
    """Delete the checkpoints of that run after this version: they are of a course that was given up."""
    _remove(each for each in _folders(checkpoint_dir) if _version_of(each) > version and _run_of(each) == run)


def remove_stale(checkpoint_dir: pathlib.Path) -> None:
    """Delete what an interrupted writer left; nobody may be writing. What was being replaced comes back."""
    for left in checkpoint_dir.iterdir() if checkpoint_dir.is_dir() else ():
        match = _STALE.fullmatch(left.name)
        if match is None:
            continue
        final = left.with_name(match[1])
        if match[2] == _REPLACED and not final.exists():
            left.rename(final)
        else:
            shutil.rmtree(left, ignore_errors=True)


def _folders(checkpoint_dir: pathlib.Path) -> list[pathlib.Path]:
    """Oldest first."""
    found = checkpoint_dir.iterdir() if checkpoint_dir.is_dir() else ()
    matches = ((_FOLDER.fullmatch(path.name), path) for path in found)
    return [path for _, path in sorted((int(match[1]), path) for match, path in matches if match)]


def _version_of(folder: pathlib.Path) -> int:
    return int(folder.name.removeprefix("version-"))


def _remove(folders: Iterable[pathlib.Path]) -> None:
    for folder in folders:
        with _told(folder):
            gone = folder.with_name(f".{folder.name}.pruned")
            shutil.rmtree(gone, ignore_errors=True)
            folder.rename(gone)
            shutil.rmtree(gone)


def _run_of(folder: pathlib.Path) -> str | None:
    """Which run wrote it; None for what is no checkpoint."""
    try:
        return str(_read_json(folder / "checkpoint.json").get("run", ""))
    except ElasticError:
        return None


def _verify(folder: pathlib.Path) -> None:
    for name, fact in _manifest(folder)["files"].items():
        if partfile.crc_of(folder / name) != fact["crc"]:
            raise ElasticError("is not the file that was written", where=str(folder / name))
        partfile.verify(folder / name)
    _read_json(folder / "ledger.json")


def _manifest(folder: pathlib.Path) -> dict[str, Any]:
    path = folder / "checkpoint.json"
    manifest = _read_json(path)
    if manifest.get("format") != _FORMAT:
        raise ElasticError(f"format {manifest.get('format')}, known is {_FORMAT}", where=str(path))
    files = manifest.get("files")
    if not (
        isinstance(files, dict) and set(files) == {_name(i, len(files)) for i in range(len(files))} and files
    ):
        raise ElasticError("does not list all parts", where=str(path))
    for name, fact in files.items():
        with _told(folder / name):
            size = (folder / name).stat().st_size
        if size != fact["size"]:
            raise ElasticError(f"{size} bytes long, written were {fact['size']}", where=str(folder / name))
    return manifest


def _complete_parts(tmp_dir: pathlib.Path, version: int) -> list[pathlib.Path]:
    files = sorted(tmp_dir.glob("variables-*.ckpt"))
    wanted = {_name(i, len(files)) for i in range(len(files))}
    if not files or {path.name for path in files} != wanted:
        raise ElasticError(f"not all parts are there: {[path.name for path in files]}", where=str(tmp_dir))
    headers = [partfile.read_header(path) for path in files]
    if {header["layout_digest"] for header in headers} != {headers[0]["layout_digest"]}:
        raise ElasticError("the parts are of different models", where=str(tmp_dir))
    if {header["version"] for header in headers} != {version}:
        versions = sorted({header["version"] for header in headers})
        raise ElasticError(f"the parts are of versions {versions}, not {version}", where=str(tmp_dir))
    return files


def _name(index: int, parts: int) -> str:
    return f"variables-{index}-of-{parts}.ckpt"


def _write_json(path: pathlib.Path, content: dict[str, Any]) -> None:
    with path.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    with _told(path):
        try:
            content = json.loads(path.read_bytes())
        except ValueError as error:
            raise ElasticError(f"is damaged: {error}", where=str(path)) from None
    if not isinstance(content, dict):
        raise ElasticError("is damaged: not a JSON object", where=str(path))
    return content


def _sync(folder: pathlib.Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _told(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ElasticError(error.strerror or str(error), where=str(error.filename or path)) from error
