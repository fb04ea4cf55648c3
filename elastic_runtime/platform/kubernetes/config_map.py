"""A log of rows in a ConfigMap that is there already: what a job's journal needs, without a volume.

Each write is one JSON patch: it tests who wrote last, says who writes now, and adds a compressed chunk of
rows; all of it happens or nothing. Who wants to write takes the log over first, which makes every write of
the one before fail its test: a master that was cut off finds itself refused. What others change in the
ConfigMap, its owners for one, is nobody's concern. All keys begin with `journal.`.
"""

from __future__ import annotations

import base64
import json
import math
import socket
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.platform.kubernetes.api import Api, Changed, Invalid, NotThere
from elastic_runtime.platform.no_room import NoRoom
from elastic_runtime.platform.overtaken import Overtaken

Row = tuple[int, int, str, int]

PAUSE_SECONDS = 0.2
BYTES_PER_SECOND = 512 << 10
"""Of writes, each of which counts whole: etcd keeps every revision of the object for five minutes."""
ROWS_BYTES = 64 << 10
CONFIG_MAP_BYTES = 1 << 20
"""What the API server lets a ConfigMap's values be in sum."""
_WRITER, _CHUNK = "journal.writer", "journal.rows-"
_FORMAT = 1


class ConfigMapStore:
    """The log of one ConfigMap; from `load` until another one's `load` this is its writer."""

    def __init__(self, api: Api, name: str) -> None:
        self.where = f"ConfigMap {api.namespace}/{name}"
        self._api, self._name = api.patient(math.inf), name
        self._writer = f"{socket.gethostname()}/{uuid.uuid4().hex}"
        self._stamp = ""
        self._chunks: dict[str, int] = {}
        self._snapshot = 0
        self._others = 0

    @property
    def pause(self) -> float:
        """The seconds from one write to the next."""
        return max(PAUSE_SECONDS, self.size / BYTES_PER_SECOND)

    @property
    def size(self) -> int:
        """The bytes of all values of the ConfigMap, as last seen."""
        return self._others + sum(self._chunks.values())

    @property
    def room(self) -> int:
        """How many more bytes of rows should come before a snapshot."""
        needed = self._others + self._chunks.get(_key(self._snapshot), 0)
        return min(ROWS_BYTES, CONFIG_MAP_BYTES - needed) - (self.size - needed)

    def load(self) -> list[Row]:
        """Take the log over as it is; from now on its earlier writer is refused."""
        patch = {"data": {_WRITER: self._stamped(0)}, "binaryData": {_key(0): _packed([])}}
        try:
            found = self._api.patch_config_map(self._name, patch)
        except NotThere:
            raise self._gone() from None
        self._take_in(found)
        return rows_of(found)

    def append(self, rows: Sequence[Row]) -> None:
        """Make rows durable behind those that are there."""
        self._write(rows, instead=False)

    def replace(self, rows: Sequence[Row]) -> None:
        """Make rows, the first of them a snapshot, durable in the place of those that are there."""
        self._write(rows, instead=True)
        self._snapshot = rows[0][0]

    def hand_over(self, note: Mapping[str, str]) -> None:
        """The rows are kept elsewhere now: remove them, and note what is to be known of that."""
        data = {**note, _WRITER: None}
        self._api.patch_config_map(self._name, {"data": data, "binaryData": dict.fromkeys(self._chunks)})

    def close(self) -> None:
        """There is nothing to let go: the next master just takes over."""

    def _write(self, rows: Sequence[Row], *, instead: bool) -> None:
        """Until it is there, be it that it was there already and only the answer was lost."""
        key, chunk, stamp = _key(rows[0][0]), _packed(rows), self._stamped(rows[-1][0])
        while self._stamp != stamp:
            old = [other for other in self._chunks if instead and other != key]
            self._check_room(key, chunk, old)
            operations = [
                {"op": "test", "path": f"/data/{_WRITER}", "value": self._stamp},
                {"op": "replace", "path": f"/data/{_WRITER}", "value": stamp},
                *({"op": "remove", "path": f"/binaryData/{other}"} for other in old),
                {"op": "add", "path": f"/binaryData/{key}", "value": chunk},
            ]
            try:
                found = self._api.patch_config_map(self._name, operations)
            except (Changed, Invalid, NotThere) as refusal:
                found = self._looked_at(refusal)
            self._take_in(found)

    def _looked_at(self, refusal: ElasticError) -> Any:
        """The ConfigMap after it refused a write, if this is still its writer."""
        found = self._api.get_config_map(self._name)
        if found is None:
            raise self._gone()
        stamp = (found.data or {}).get(_WRITER, "")
        if stamp.split(" ")[0] != self._writer:
            raise Overtaken(f"another master has taken over: {stamp or 'nobody known'}", where=self.where)
        if stamp == self._stamp and not isinstance(refusal, Changed):
            raise refusal
        return found

    def _take_in(self, found: Any) -> None:
        data, binary = found.data or {}, found.binary_data or {}
        self._stamp = data.get(_WRITER, "")
        self._chunks = {key: _size(value) for key, value in binary.items() if key.startswith(_CHUNK)}
        other = sum(_size(value) for key, value in binary.items() if key not in self._chunks)
        self._others = other + sum(len(value.encode()) for value in data.values())

    def _check_room(self, key: str, chunk: str, old: Sequence[str]) -> None:
        kept = sum(size for other, size in self._chunks.items() if other != key and other not in old)
        size = self._others + kept + _size(chunk)
        if size > CONFIG_MAP_BYTES:
            raise NoRoom(
                f"the journal does not fit: {size / 1024:.0f} KiB of {CONFIG_MAP_BYTES / 1024:.0f} KiB",
                where=self.where,
                remedy="give the same command with --run_dir below the mount_path of a --volume: it goes on "
                "with the journal there",
            )

    def _stamped(self, number: int) -> str:
        return f"{self._writer} {number}"

    def _gone(self) -> ElasticError:
        return ElasticError("the journal is gone: the job was deleted", where=self.where)


def rows_of(config_map: Any) -> list[Row]:
    """The rows in a ConfigMap, whoever writes it; they are not checked."""
    name, binary = config_map.metadata.name, config_map.binary_data or {}
    keys = sorted(key for key in binary if key.startswith(_CHUNK))
    return [row for key in keys for row in _unpacked(binary[key], where=f"ConfigMap {name}, {key}")]


def _key(number: int) -> str:
    """Of the chunk that begins with the row of this number; 0 begins none, and is there from the start on."""
    return f"{_CHUNK}{number:012d}"


def _packed(rows: Sequence[Row]) -> str:
    return base64.b64encode(zlib.compress(json.dumps([_FORMAT, rows]).encode())).decode()


def _unpacked(chunk: str, *, where: str) -> list[Row]:
    try:
        form, rows = json.loads(zlib.decompress(base64.b64decode(chunk)))
        if form == _FORMAT:
            return [(number, kind, body, checksum) for number, kind, body, checksum in rows]
    except (zlib.error, ValueError, TypeError) as problem:
        raise ElasticError(
            f"the journal is damaged: {problem}", where=where, remedy="begin anew with --restart"
        ) from problem
    raise ElasticError(
        f"not a journal of this version (found format {form}, need {_FORMAT})",
        where=where,
        remedy="use the version it was written with, or begin anew with --restart",
    )


def _size(value: str) -> int:
    """Of what the base64 stands for, which is what counts."""
    return len(value) * 3 // 4
