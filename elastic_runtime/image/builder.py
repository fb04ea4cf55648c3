"""Whatever builds images here: Docker, Podman or buildah, the first that works.

All three take the same words for what is needed, and their settings and logins are their own. While one
works, its words go to whoever watches; when it fails, they become an error in the user's words.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.errors import ElasticError, InputError

_WORKS = {
    "docker": ("version", "--format", "{{.Server.Version}}"),
    "podman": ("info",),
    "buildah": ("info",),
}
_LAST_LINES = 5
_PLAIN_HTTP = re.compile("server gave HTTP response to HTTPS client|does not look like a TLS handshake")
_REFUSED = re.compile(
    "unauthorized|authentication required|no basic auth credentials|insufficient_scope|403 Forbidden"
    "|requested access to the resource is denied",
    re.IGNORECASE,
)
_NO_BASE = re.compile(
    "pull access denied|manifest unknown|failed to resolve source metadata|initializing source"
    "|creating build container|short-name resolution|no such image",
    re.IGNORECASE,
)
_DIGEST = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Builder:
    """A program that builds and pushes images."""

    program: str

    def build(self, *, dockerfile: Path, context: Path, tag: str) -> None:
        """Builds `tag`."""
        try:
            # The others keep layers, and no container of a build that failed, anyway.
            own = ("--layers", "--force-rm") if self.program == "buildah" else ()
            self._run("build", *own, "-f", str(dockerfile), "-t", tag, str(context))
        except _Failure as failure:
            raise self._build_failed(failure, dockerfile) from None

    def push(self, tag: str) -> str:
        """Pushes `tag` and returns what names exactly this image for ever: `repository@sha256:...`."""
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "digest"
            options = () if self.program == "docker" else ("--digestfile", str(told))
            try:
                said = self._run("push", *options, tag)
            except _Failure as failure:
                raise self._push_failed(failure, tag) from None
            digests = _DIGEST.findall(told.read_text() if told.exists() else said)
        if not digests:
            raise ElasticError(f"{self.program} did not say what it pushed", where=tag)
        return f"{repository(tag)}@{digests[-1]}"

    def _run(self, *command: str) -> str:
        lines = []
        words = [self.program, *command]
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                sys.stderr.write(line)
                lines.append(line.rstrip())
        if process.returncode:
            raise _Failure([line for line in lines if line])
        return "\n".join(lines)

    def _build_failed(self, failure: _Failure, dockerfile: Path) -> ElasticError:
        if _PLAIN_HTTP.search(failure.words):
            return _plain_http("the base image's registry")
        if _NO_BASE.search(failure.words):
            bases = re.findall(r"^FROM\s+(\S+)", dockerfile.read_text(errors="replace"), re.MULTILINE)
            return ElasticError(
                f"a base image cannot be had, {' or '.join(bases)}: {failure.end}",
                where=str(dockerfile),
                remedy=f"is its name right, and does its registry ask for `{self.program} login`?",
            )
        return ElasticError(f"the image could not be built: {failure.last}", where=str(dockerfile))

    def _push_failed(self, failure: _Failure, tag: str) -> ElasticError:
        if _PLAIN_HTTP.search(failure.words):
            return _plain_http(f"the registry {registry(tag)}", where=tag)
        if _REFUSED.search(failure.words):
            return ElasticError(
                f"the registry {registry(tag)} refused it: {failure.end}",
                where=tag,
                remedy=f"{self.program} login {registry(tag)}",
            )
        return ElasticError(f"the image could not be pushed: {failure.end}", where=tag)


class _Failure(Exception):
    """What a builder said before it failed: all of it, its last line, and its last lines."""

    def __init__(self, lines: list[str]) -> None:
        self.words = "\n".join(lines)
        self.end = lines[-1] if lines else "it said nothing"
        self.last = " | ".join(lines[-_LAST_LINES:]) or self.end
        super().__init__(self.last)


def find_builder() -> Builder:
    """The first builder that is there and works."""
    for program, question in _WORKS.items():
        if shutil.which(program):
            asked = subprocess.run(
                [program, *question], stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
            if not asked.returncode:
                return Builder(program)
    there = [program for program in _WORKS if shutil.which(program)]
    raise InputError(
        f"{', '.join(there)} does not work here"
        if there
        else "there is neither docker nor podman nor buildah",
        where="building an image",
        remedy="start Docker, or install buildah, which needs no daemon: sudo apt-get install buildah",
    )


def repository(tag: str) -> str:
    """An image's name without its tag; a registry's port is no tag."""
    path, slash, last = tag.rpartition("/")
    return f"{path}{slash}{last.partition(':')[0]}"


def registry(tag: str) -> str:
    """Where the image is pushed to: the first part of its name, if that is an address."""
    first, slash, _ = tag.partition("/")
    return first if slash and (set(first) & {".", ":"} or first == "localhost") else "docker.io"


def _plain_http(who: str, *, where: str = "") -> ElasticError:
    return ElasticError(
        f"{who} speaks plain HTTP, and the builder wants HTTPS",
        where=where,
        remedy="name it in insecure-registries of /etc/docker/daemon.json, or, for Podman and buildah, with "
        "insecure=true in /etc/containers/registries.conf",
    )
