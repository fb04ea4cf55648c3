"""What `--volume` says: persistent volume claims and host folders, and where the pods see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.spec.pairs import pairs

_KEYS = ("claim_name", "host_path", "type", "mount_path", "sub_path", "volume_name")
_HOST_PATH_TYPES = (
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
    "CharDevice",
    "BlockDevice",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One mount: exactly one of `claim_name` and `host_path`. `volume_name` is a label of the user's own."""

    mount_path: str
    claim_name: str = ""
    host_path: str = ""
    type: str = ""
    sub_path: str = ""
    volume_name: str = ""


def parse_volumes(text: str) -> tuple[Volume, ...]:
    """`claim_name=c,mount_path=/a;host_path=/b,mount_path=/b`: `;` between volumes, `,` between keys."""
    volumes = tuple(_volume(pairs(part)) for part in text.split(";") if part.strip(" ,"))
    mounts = [volume.mount_path for volume in volumes]
    for mount in mounts:
        if mounts.count(mount) > 1:
            raise InputError(
                f"two volumes are mounted at {mount!r}", remedy="give each a mount_path of its own"
            )
    return volumes


def place_on_volume(path: str, volumes: Iterable[Volume]) -> str:
    """What a path of a pod means whatever it is mounted as, `claim c: run/j`; empty if it is on no volume."""
    holding = [volume for volume in volumes if PurePosixPath(path).is_relative_to(volume.mount_path)]
    if not holding:
        return ""
    volume = max(holding, key=lambda each: len(PurePosixPath(each.mount_path).parts))
    inside = PurePosixPath(volume.sub_path) / PurePosixPath(path).relative_to(volume.mount_path)
    if volume.claim_name:
        return f"claim {volume.claim_name}: {inside}"
    return f"host path {PurePosixPath(volume.host_path) / inside}"


def _volume(found: dict[str, str]) -> Volume:
    for key in found:
        if key not in _KEYS:
            raise InputError(f"unknown key {key!r}", remedy=nearest(key, _KEYS))
    text = ",".join(f"{key}={value}" for key, value in found.items())
    if bool(found.get("claim_name")) == bool(found.get("host_path")):
        raise InputError(
            f"{text!r} needs one of claim_name and host_path", remedy="host_path=/data,mount_path=/data"
        )
    if not found.get("mount_path", "").startswith("/"):
        raise InputError(f"{text!r} needs a mount_path that begins with '/'", remedy="mount_path=/data")
    kind = found.get("type", "")
    if kind and not found.get("host_path"):
        raise InputError(f"{text!r}: type goes with host_path only", remedy="leave type out")
    if kind and kind not in _HOST_PATH_TYPES:
        raise InputError(f"unknown type {kind!r} of host_path", remedy=nearest(kind, _HOST_PATH_TYPES))
    return Volume(**found)
