"""Images pushed to a registry through its own API: those made of a few files, without a builder, and others.

What the cluster needs itself is so small that a tar archive and two JSON documents are the whole image.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO

_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LAYER = "application/vnd.oci.image.layer.v1.tar"
MARK = "elasticdl.mark"
ANSWER_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Image:
    """What is in an image: programs by the path they get, other names for them, texts, and what is run."""

    programs: Mapping[str, Path]
    links: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()

    def layer(self) -> bytes:
        """The one layer; the same content gives the same bytes."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for folder in self._folders():
                entry = _entry(folder, tarfile.DIRTYPE)
                entry.mode = 0o1777 if folder == "tmp" else 0o755
                archive.addfile(entry)
            for path, source in self.programs.items():
                _add(archive, path, source.read_bytes(), mode=0o755)
            for path, text in self.texts.items():
                _add(archive, path, text.encode(), mode=0o644)
            for path, target in self.links.items():
                entry = _entry(path, tarfile.SYMTYPE)
                entry.linkname = target
                archive.addfile(entry)
        return buffer.getvalue()

    def _folders(self) -> list[str]:
        paths = [*self.programs, *self.links, *self.texts, "/tmp/any"]
        parents = {str(parent) for path in paths for parent in PurePosixPath(path.lstrip("/")).parents}
        return sorted(parents - {"."})


def push(image: Image, name: str) -> str:
    """Pushes the image as `name`, `<registry>/<repository>:<tag>`, and returns that name."""
    registry, _, rest = name.partition("/")
    repository, _, tag = rest.rpartition(":")
    base = f"http://{registry}/v2/{repository}"
    layer = image.layer()
    config = json.dumps(
        {
            "os": "linux",
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "config": {"Entrypoint": list(image.entrypoint), "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _push_blob(base, config, CONFIG),
        "layers": [_push_blob(base, layer, LAYER)],
    }
    _send("PUT", f"{base}/manifests/{tag}", json.dumps(manifest).encode(), MANIFEST)
    return name


def push_archive(archive: Path, name: str, mark: str) -> None:
    """Pushes an image out of what `docker save` makes of it; layers that the registry has are not sent again.

    They stay uncompressed, as compressing them takes longer than all else. The mark is what `mark_of` tells.
    """
    registry, _, rest = name.partition("/")
    repository, _, tag = rest.rpartition(":")
    base = f"http://{registry}/v2/{repository}"
    with tarfile.open(archive) as opened:
        [described] = json.loads(_read(opened, "manifest.json"))
        config = _read(opened, described["Config"])
        digests = json.loads(config)["rootfs"]["diff_ids"]
        layers = [
            _push_layer(base, opened, member, digest)
            for member, digest in zip(described["Layers"], digests, strict=True)
        ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _push_blob(base, config, CONFIG),
        "layers": layers,
        "annotations": {MARK: mark},
    }
    _send("PUT", f"{base}/manifests/{tag}", json.dumps(manifest).encode(), MANIFEST)


def copy(source: str, name: str) -> None:
    """Has an image of a registry bear another name there, too, for which nothing is sent."""
    registry, _, rest = name.partition("/")
    repository, _, tag = rest.rpartition(":")
    there, _, tag_there = source.removeprefix(f"{registry}/").rpartition(":")
    headers = {"Accept": MANIFEST}
    with _open(
        urllib.request.Request(f"http://{registry}/v2/{there}/manifests/{tag_there}", headers=headers),
        timeout=ANSWER_SECONDS,
    ) as answer:
        content = answer.read()
    manifest = json.loads(content)
    base = f"http://{registry}/v2/{repository}"
    for blob in [manifest["config"], *manifest["layers"]]:
        _send("POST", f"{base}/blobs/uploads/?mount={blob['digest']}&from={there}", b"", "")
    _send("PUT", f"{base}/manifests/{tag}", content, MANIFEST)


def mark_of(name: str) -> str:
    """What the image was marked with when it was pushed as `name`; nothing if there is none."""
    registry, _, rest = name.partition("/")
    repository, _, tag = rest.rpartition(":")
    request = urllib.request.Request(
        f"http://{registry}/v2/{repository}/manifests/{tag}", headers={"Accept": MANIFEST}
    )
    try:
        with _open(request, timeout=60) as answer:
            return str(json.load(answer).get("annotations", {}).get(MARK, ""))
    except urllib.error.HTTPError:
        return ""


def _push_layer(base: str, archive: tarfile.TarFile, member: str, digest: str) -> dict[str, object]:
    entry = archive.getmember(member)
    if entry.issym():
        entry = archive.getmember(str(PurePosixPath(member).parent / entry.linkname))
    try:
        _send("HEAD", f"{base}/blobs/{digest}", None, "")
    except urllib.error.HTTPError:
        content = archive.extractfile(entry)
        assert content is not None
        _upload(base, content, entry.size, digest)
    return {"mediaType": LAYER, "digest": digest, "size": entry.size}


def _read(archive: tarfile.TarFile, member: str) -> bytes:
    content = archive.extractfile(member)
    assert content is not None
    return content.read()


def _push_blob(base: str, content: bytes, kind: str) -> dict[str, object]:
    _upload(base, io.BytesIO(content), len(content), _digest(content))
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _upload(base: str, content: IO[bytes], size: int, digest: str) -> None:
    place = _send("POST", f"{base}/blobs/uploads/", b"", "").headers["Location"]
    mark = "&" if "?" in place else "?"
    address = urllib.parse.urljoin(base, f"{place}{mark}digest={digest}")
    _send("PUT", address, content, "application/octet-stream", {"Content-Length": str(size)})


def _send(
    method: str, address: str, content: bytes | IO[bytes] | None, kind: str, more: Mapping[str, str] = {}
) -> HTTPResponse:
    headers = {"Content-Type": kind, **more}
    request = urllib.request.Request(address, data=content, method=method, headers=headers)
    answer: HTTPResponse = _open(request, timeout=ANSWER_SECONDS)
    answer.read()
    return answer


def _add(archive: tarfile.TarFile, path: str, content: bytes, *, mode: int) -> None:
    entry = _entry(path, tarfile.REGTYPE)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _entry(path: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type = kind
    return entry


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
