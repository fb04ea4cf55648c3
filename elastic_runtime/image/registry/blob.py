"""What a repository is made of: bytes known by their digest, and the manifests that put them together.

A `Blob` may be larger than memory, so it is a way to read it, again and again; a `Document` is small.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes known by their digest, to be read any number of times."""

    digest: str
    size: int
    chunks: Callable[[], Iterator[bytes]]

    @classmethod
    def of(cls, content: bytes) -> Blob:
        """A small one."""
        return cls(digest_of(content), len(content), lambda: iter((content,)))


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest, or a list of manifests, as it came."""

    content: bytes
    media_type: str


def digest_of(content: bytes) -> str:
    """The name of these bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
