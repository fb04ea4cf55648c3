"""Files come into their folder only when all are written, and never beside those of an earlier run.

They are written into a hidden folder of the output, one for each run. To put them in place, a marker is set
that makes readers refuse the folder, old files are removed, the new ones are renamed, and the marker goes. A
run killed at any moment leaves the old files, or the new ones, or a folder that says it is incomplete; the
next run cleans up.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import uuid
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO, Self

from elastic_runtime.data import storage
from elastic_runtime.data.trouble import told
from elastic_runtime.errors import InputError

_PREFIX = ".convert-run-"
_REJECTS = "_rejects.jsonl"
_DATA = re.compile(r"data-\d{5,}")


class Staging:
    """A run's hidden folder in the output; leaving it without `commit` leaves nothing behind."""

    def __init__(self, output: str, parts: tuple[str, ...]) -> None:
        self.output = output.rstrip("/") or "/"
        self._parts = parts
        self._fs, self._root = storage.filesystem(self.output)
        self._name = _PREFIX + uuid.uuid4().hex[:8]
        self.rejects_file = storage.join(self.output, _REJECTS)
        self._rejects: BinaryIO | None = None
        self._made = False  # the output did not exist before

    def refuse_own(self, sources: Iterable[str]) -> None:
        """Sources that `commit` would remove or replace must not be converted."""
        folders = {storage.absolute(storage.join(self.output, part)) for part in ("", *self._parts)}
        for file in sources:
            folder, _, name = file.rpartition("/")
            if folder in folders and _DATA.fullmatch(name):
                what = "a file of the source would be replaced by the output"
                raise InputError(what, where=file, remedy="choose another output folder")

    @property
    def shared(self) -> bool:
        """Whether other processes see what is written here."""
        return "memory" not in self._fs.protocol

    def path(self, name: object) -> str:
        """Where to write the file of this name, which may be a number."""
        return storage.join(self.output, self._name, str(name))

    def reject(self, lines: list[str]) -> None:
        """Set bad rows aside."""
        with self._told():
            if lines and not self._rejects:
                self._rejects = storage.open_output(self.path(_REJECTS))
            if self._rejects:
                self._rejects.writelines(line.encode() + b"\n" for line in lines)

    def commit(self, files: Iterable[tuple[str, str]]) -> None:
        """Put these files, each a path and a part, in place; they are numbered from 0 in each part."""
        counts = dict.fromkeys(self._parts, 0)
        folders = {part: posixpath.join(self._root, part).rstrip("/") for part in self._parts}
        with self._told():
            self._fs.invalidate_cache()
            for folder in folders.values():
                self._fs.makedirs(folder, exist_ok=True)
                self._fs.pipe_file(posixpath.join(folder, storage.INCOMPLETE), b"")
            self._remove_old({self._root, *folders.values()})
            for path, part in files:
                self._fs.mv(
                    self._staged(posixpath.basename(path)),
                    posixpath.join(folders[part], f"data-{counts[part]:05d}"),
                )
                counts[part] += 1
            if self._rejects:
                self._rejects.close()
                self._fs.mv(self._staged(_REJECTS), posixpath.join(self._root, _REJECTS))
            for folder in folders.values():
                self._fs.rm_file(posixpath.join(folder, storage.INCOMPLETE))

    def _staged(self, *name: str) -> str:
        return posixpath.join(self._root, self._name, *name)

    def _remove_old(self, folders: set[str]) -> None:
        for folder in folders:
            for path in self._listed(folder):
                if _DATA.fullmatch(posixpath.basename(path)):
                    self._fs.rm_file(path)
        rejects = posixpath.join(self._root, _REJECTS)
        if self._fs.exists(rejects):
            self._fs.rm_file(rejects)

    def _remove_runs(self) -> None:
        for path in self._listed(self._root):
            if posixpath.basename(path.rstrip("/")).startswith(_PREFIX):
                self._fs.rm(path, recursive=True)

    def _listed(self, folder: str) -> list[str]:
        """The paths in a folder; in an object store one that holds nothing is not there."""
        try:
            return list(self._fs.ls(folder, detail=False))
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        with told("written", self.output):
            yield

    def __enter__(self) -> Self:
        with self._told():
            self._made = not self._fs.exists(self._root)
            self._fs.makedirs(self._root, exist_ok=True)
            self._remove_runs()
            self._fs.makedirs(self._staged())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        with contextlib.suppress(Exception):  # the store's own; what ended the conversion is what is told
            if self._rejects:
                self._rejects.close()
            self._fs.rm(self._staged(), recursive=True)
            if error and self._made and not self._listed(self._root):
                self._fs.rmdir(self._root)
