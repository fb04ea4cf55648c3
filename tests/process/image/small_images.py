"""Small images to build on, and what became of them."""

from __future__ import annotations

import io
import json
import tarfile
import urllib.request
from typing import Any

from elastic_runtime.image.base import THIS_MACHINE
from elastic_runtime.image.registry.blob import Blob, Document, digest_of
from elastic_runtime.image.registry.reference import Reference
from elastic_runtime.image.registry.repository import Repository

BASE = "runtime:1"
OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
KINDS = {
    "oci": (f"{OCI}.manifest.v1+json", f"{OCI}.config.v1+json", f"{OCI}.layer.v1.tar"),
    "docker": (
        f"{DOCKER}.distribution.manifest.v2+json",
        f"{DOCKER}.container.image.v1+json",
        f"{DOCKER}.image.rootfs.diff.tar",
    ),
}
ACCEPTED = ", ".join([*(kind[0] for kind in KINDS.values()), f"{OCI}.index.v1+json"])


def put_image(
    name: str,
    *,
    kind: str = "oci",
    architecture: str = THIS_MACHINE.partition("/")[2],
    files: dict[str, bytes] | None = None,
    **config: Any,
) -> str:
    """Pushes an image of one layer; returns its digest."""
    wanted = Reference.parse(name)
    repository = Repository(wanted, writes=True)
    manifest_type, config_type, layer_type = KINDS[kind]
    layer = Blob.of(archive(files or {"etc/passwd": b"root:x:0:0::/:\n", "model_zoo/old.py": b""}))
    about = {
        "os": "linux",
        "architecture": architecture,
        "created": "2026-01-02T03:04:05Z",
        "config": {"User": "1000", "Env": ["PATH=/bin"], "Labels": {"mine": "stays"}, **config},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        "history": [{"created_by": "test"}],
    }
    configuration = Blob.of(json.dumps(about).encode())
    for blob in (layer, configuration):
        repository.put_blob(blob)
    parts = {"config": (config_type, configuration), "layers": (layer_type, layer)}
    described = {
        part: {"mediaType": media_type, "digest": blob.digest, "size": blob.size}
        for part, (media_type, blob) in parts.items()
    }
    described["layers"] = [described["layers"]]  # type: ignore[assignment]
    return put_manifest(name, {"schemaVersion": 2, "mediaType": manifest_type, **described})


def put_manifest(name: str, manifest: dict[str, Any]) -> str:
    wanted = Reference.parse(name)
    content = json.dumps(manifest).encode()
    Repository(wanted, writes=True).put_manifest(Document(content, manifest["mediaType"]), wanted.version)
    return digest_of(content)


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def get(address: str, path: str) -> Any:
    """What a registry says to a question of ours, and the digest of that."""
    request = urllib.request.Request(f"http://{address}/v2/{path}", headers={"Accept": ACCEPTED})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        content = answer.read()
        return json.loads(content), digest_of(content)


def blob(address: str, repository: str, digest: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"http://{address}/v2/{repository}/blobs/{digest}", timeout=60
    ) as answer:
        return bytes(answer.read())


class Made:
    """An image that was built, as its registry has it."""

    def __init__(self, name: str) -> None:
        self.name = Reference.parse(name)
        where = self.name.registry, self.name.repository
        self.manifest, self.digest = get(where[0], f"{where[1]}/manifests/{self.name.version}")
        self.config = json.loads(blob(*where, self.manifest["config"]["digest"]))
        self.layers = [part["digest"] for part in self.manifest["layers"]]

    def files(self, index: int = -1) -> dict[str, tarfile.TarInfo]:
        with self.opened(index) as layer:
            return {entry.name: entry for entry in layer}

    def opened(self, index: int = -1) -> tarfile.TarFile:
        content = blob(self.name.registry, self.name.repository, self.layers[index])
        return tarfile.open(fileobj=io.BytesIO(content))

    @property
    def environment(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.config["config"]["Env"])
