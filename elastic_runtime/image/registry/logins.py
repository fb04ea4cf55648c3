"""Who we are to a registry: what `docker login`, `podman login` or a mounted secret has left.

A secret of type `kubernetes.io/dockerconfigjson`, mounted as it is, is a folder with a `.dockerconfigjson`;
as `DOCKER_CONFIG` it serves like any other. Where a file names a program that keeps passwords, it is asked.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastic_runtime.errors import InputError
from elastic_runtime.image.registry.reference import Reference

_BY_TOKEN = "<token>"  # what a program that keeps logins says in place of a user  # noqa: S105
_HUB_NAMES = {"index.docker.io": "docker.io", "registry-1.docker.io": "docker.io"}


@dataclass(frozen=True, slots=True)
class Login:
    """A user and password, or a token that stands for them; and the file that it comes from."""

    source: Path
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The header that HTTP's basic authentication wants."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


def places() -> list[Path]:
    """The files that may hold logins, the most specific first."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or f"{os.environ.get('HOME', '')}/.docker")
    found = [folder / "config.json", folder / ".dockerconfigjson"]
    if "REGISTRY_AUTH_FILE" in os.environ:
        found.append(Path(os.environ["REGISTRY_AUTH_FILE"]))
    if "XDG_RUNTIME_DIR" in os.environ:
        found.append(Path(os.environ["XDG_RUNTIME_DIR"]) / "containers" / "auth.json")
    return found


def login(image: Reference) -> Login | None:
    """The login for an image's registry, if there is one; one for its very folder goes first."""
    for file in filter(Path.is_file, places()):
        try:
            settings = json.loads(file.read_text())
            found = _kept(file, settings, image) or _asked(file, settings, image.registry)
        except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
            raise InputError(f"is no file of logins: {error}", where=str(file)) from error
        if found:
            return found
    return None


def _kept(file: Path, settings: dict[str, Any], image: Reference) -> Login | None:
    known = {_plain(key): entry for key, entry in settings.get("auths", {}).items()}
    entry = next((known[name] for name in _names(image) if known.get(name)), None)
    if entry is None:
        return None
    if entry.get("identitytoken"):
        return Login(file, token=entry["identitytoken"])
    user, _, password = base64.b64decode(entry.get("auth", ""), validate=True).decode().partition(":")
    user, password = entry.get("username", user), entry.get("password", password).rstrip("\0")
    return Login(file, user, password) if user else None


def _asked(file: Path, settings: dict[str, Any], registry: str) -> Login | None:
    name = "https://index.docker.io/v1/" if registry == "docker.io" else registry
    program = settings.get("credHelpers", {}).get(registry) or settings.get("credsStore")
    if not program:
        return None
    words = [f"docker-credential-{program}", "get"]
    try:
        told = subprocess.run(words, input=name, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(
            f"names {words[0]}, which cannot be run: {error.strerror}", where=str(file)
        ) from None
    if told.returncode:  # it knows no login for this registry
        return None
    answer = json.loads(told.stdout)
    if answer["Username"] == _BY_TOKEN:
        return Login(file, token=answer["Secret"])
    return Login(file, answer["Username"], answer["Secret"])


def _names(image: Reference) -> Iterator[str]:
    path = f"{image.registry}/{image.repository}"
    while path:
        yield path
        path = path.rpartition("/")[0]


def _plain(key: str) -> str:
    name = re.sub(r"^https?://|/(v[12]/?)?$", "", key)
    host, slash, path = name.partition("/")
    return f"{_HUB_NAMES.get(host, host)}{slash}{path}"
