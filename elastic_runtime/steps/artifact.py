"""What goes in and out of a step: a place for a file or folder, its address elsewhere, and facts about it.

KFP's artifacts are such; `Folder` is one for everybody else. An input is read where it lies on this machine
if it does, and by its address otherwise, which is also what pods on other machines are given.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from elastic_runtime.data import storage
from elastic_runtime.errors import InputError, nearest
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.steps.carry_out import ON_KFP

_TAKEN_BY_KFP = ("gs://", "gcs://", "minio://", "s3://", "s3a://")
"""KFP's launcher looks for an artifact at such an address in its own store, and in no other."""


class Artifact(Protocol):
    """An input or output of a step."""

    uri: str
    metadata: dict[str, Any]

    @property
    def path(self) -> str:
        """Where it is, or is to be written, on this machine."""
        ...


@dataclass
class Folder:
    """An artifact that is nothing but a place on this machine."""

    path: str
    metadata: dict[str, Any] = field(default_factory=dict)
    uri: str = ""

    def __post_init__(self) -> None:
        self.uri = self.uri or self.path


def location(artifact: Artifact, part: str = "", *, elsewhere: bool = False) -> str:
    """Where to read an input, or a part of it; with `elsewhere`, from any machine."""
    place = artifact.path if not elsewhere and Path(artifact.path).exists() else address(artifact)
    parts = _as_it_was(artifact.metadata.get("splits", {}))
    if parts and part not in parts:
        what = f"there is no part {part!r}" if part else f"the data are in parts: {', '.join(parts)}"
        remedy = nearest(part, parts) if part else "name the one to read"
        raise InputError(what, where=place, remedy=remedy)
    return storage.join(place, part) if part else place


def address(artifact: Artifact) -> str:
    """Where it is, or is to be, for everybody."""
    return artifact.uri


def refuse_what_kfp_does_not_find(output: str, artifact: Artifact) -> None:
    """An artifact that is elsewhere in a store than KFP has said fails a step there, after all its work.

    Under `kfp.local`, whose processes are KFP's as well, artifacts are on this machine, and may go anywhere.
    """
    is_kfps = os.environ.get(ON_KFP) == "true" and artifact.uri.startswith(_TAKEN_BY_KFP)
    is_under = f"{output.rstrip('/')}/".startswith(f"{artifact.uri.rstrip('/')}/")
    if is_kfps and output.startswith(_TAKEN_BY_KFP) and not is_under:
        raise InputError(
            f"Kubeflow Pipelines takes from a store only what is under {artifact.uri}",
            where=f"output={output}",
            remedy="leave it out: it goes to the pipeline's own store; or name a path on a mounted volume",
        )


def _as_it_was(fact: dict[str, Any]) -> dict[str, Any]:
    """KFP's server gives a fact of several values back inside another one, called `struct`."""
    inside = fact.get("struct")
    return inside if isinstance(inside, dict) else fact


def write_text(artifact: Artifact, text: str) -> None:
    """Put a text where the output is to be."""
    write_atomically(Path(artifact.path), text)
