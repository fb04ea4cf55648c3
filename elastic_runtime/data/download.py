"""A file from the web, of no more than a few megabytes: there whole and as it should be, or not there.

What it should be is told by its SHA-256, so where it comes from need not be trusted, and what was kept of an
earlier download need not be either. Nothing is waited for without end, a server that says a byte now and then
no more than one that is silent.
"""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

from elastic_runtime.data.trouble import told
from elastic_runtime.errors import ElasticError, InputError

SILENT_SECONDS, SECONDS = 10.0, 240.0
_MOST = 64 << 20
_AT_A_TIME = 1 << 16


def is_whole(path: Path, sha256: str) -> bool:
    """Whether this file is there, and the one that is meant."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def download(url: str, path: Path, *, sha256: str, remedy: str = "") -> None:
    """Put what is at `url` at `path`, in place of what is there; whatever is wrong is an `InputError`."""
    content = _content(url, remedy)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError("its checksum is not that of the file that is meant", where=url, remedy=remedy)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # others may download it, too
    with told("written", str(path), verdict=ElasticError):
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def _content(url: str, remedy: str) -> bytes:
    until = time.monotonic() + SECONDS
    content = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=SILENT_SECONDS) as answer:  # noqa: S310 - the user's own choice
            told_length = answer.headers.get("Content-Length", "")
            while part := answer.read1(_AT_A_TIME):
                content += part
                if time.monotonic() > until:
                    raise TimeoutError(f"not all of it came within {SECONDS:g} s")
                if len(content) > _MOST:
                    raise OSError("it does not end")
        if told_length.isdecimal() and len(content) < int(told_length):
            raise ConnectionError(f"the connection was cut after {len(content)} of {told_length} bytes")
    except (OSError, ValueError, http.client.HTTPException) as problem:
        raise InputError(f"cannot be downloaded: {_why(problem)}", where=url, remedy=remedy) from problem
    return bytes(content)


def _why(problem: Exception) -> object:
    """What has happened, without urllib's words around it; of a server's refusal they are all there is."""
    if isinstance(problem, urllib.error.HTTPError):
        return problem
    return problem.reason if isinstance(problem, urllib.error.URLError) else problem
