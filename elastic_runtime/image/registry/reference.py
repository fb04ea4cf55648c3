"""The name of an image, taken apart: which registry, which repository there, and which image in it.

registry.example:5000/team/model:1    python:3.11, which is docker.io/library/python:3.11
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from elastic_runtime.errors import InputError
from elastic_runtime.image.builder import registry

DIGEST = re.compile("sha256:[0-9a-f]{64}")
_HUB = "docker.io"
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:[._/]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")
_LOOPBACK = re.compile(r"(?:localhost|127\.[0-9.]+|\[::1\])(?::[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Reference:
    """Names one image by its digest, or what a tag means today; with neither, a repository."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, name: str) -> Reference:
        """Takes a name as Docker does."""
        rest, at, digest = name.partition("@")
        host = registry(rest)
        path, slash, last = rest.removeprefix(f"{host}/").rpartition("/")
        last, colon, tag = last.partition(":")
        path = f"{path}{slash}{last}"
        if host == _HUB and "/" not in path:
            path = f"library/{path}"
        well_formed = (
            _HOST.fullmatch(host)
            and _REPOSITORY.fullmatch(path)
            and (_TAG.fullmatch(tag) or not colon)
            and (DIGEST.fullmatch(digest) or not at)
        )
        if not well_formed:
            remedy = "write it in lower case and without https://, like registry.example/team/model:1"
            raise InputError("is no name of an image", where=repr(name), remedy=remedy)
        return cls(host, path, tag, digest)

    def __str__(self) -> str:
        name = f"{self.registry}/{self.repository}"
        return f"{name}@{self.digest}" if self.digest else f"{name}:{self.version}"

    @property
    def version(self) -> str:
        """What a registry is asked for."""
        return self.digest or self.tag or "latest"

    @property
    def is_here(self) -> bool:
        """Whether its registry is on this machine."""
        return bool(_LOOPBACK.fullmatch(self.registry))

    @property
    def address(self) -> str:
        """Where the registry's API is."""
        return "registry-1.docker.io" if self.registry == _HUB else self.registry

    def pinned(self, digest: str) -> Reference:
        """The image of this digest in the same repository."""
        return replace(self, digest=digest)
