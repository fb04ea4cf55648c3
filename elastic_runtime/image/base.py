"""The image that another one is to be built on, as its registry describes it.

What a registry says is written by others and may be anything, so all that is used later is checked here,
once: an `Image` is one platform's, can be run, and its parts fit together.
"""

from __future__ import annotations

import json
import platform as machine
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from elastic_runtime.errors import ElasticError, InputError, nearest
from elastic_runtime.image.registry.blob import Document, digest_of
from elastic_runtime.image.registry.reference import DIGEST, Reference
from elastic_runtime.image.registry.repository import PATIENCE_SECONDS, Repository

_OCI, _DOCKER = "application/vnd.oci.image", "application/vnd.docker"
_INDEXES = (f"{_OCI}.index.v1+json", f"{_DOCKER}.distribution.manifest.list.v2+json")
LAYERS = {
    f"{_OCI}.manifest.v1+json": f"{_OCI}.layer.v1.tar+gzip",
    f"{_DOCKER}.distribution.manifest.v2+json": f"{_DOCKER}.image.rootfs.diff.tar.gzip",
}
"""The kinds of manifest that we know, and what a layer is called in each."""
_CONFIGS = (f"{_OCI}.config.v1+json", f"{_DOCKER}.container.image.v1+json")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_ALL = ("386", "amd64", "arm", "arm64", "loong64", "mips64le", "ppc64le", "riscv64", "s390x")
PLATFORMS = tuple(f"linux/{architecture}" for architecture in _ALL)
"""Those that images are made for, by the names that registries have for them."""
THIS_MACHINE = f"linux/{_ARCHITECTURES.get(machine.machine(), machine.machine())}"


@dataclass(frozen=True, slots=True)
class Image:
    """An image of one platform, as its registry has it."""

    source: Repository
    digest: str
    media_type: str
    manifest: dict[str, Any]
    config: dict[str, Any]

    @property
    def name(self) -> Reference:
        """What it was found by."""
        return self.source.image

    @property
    def platform(self) -> str:
        """What it runs on."""
        return f"{self.config['os']}/{self.config['architecture']}"

    @property
    def environment(self) -> dict[str, str]:
        """What its processes have."""
        pairs = (entry.partition("=") for entry in (self.config.get("config") or {}).get("Env") or ())
        return {name: value for name, _, value in pairs}


def check_platform(text: str) -> None:
    """Refuse what is no `system/architecture`, with or without a variant; empty is this machine's."""
    platform = "/".join(text.split("/")[:2])
    if text and (platform not in PLATFORMS or not all(text.split("/")) or text.count("/") > 2):
        raise InputError(f"unknown platform {text!r}", remedy=nearest(text, PLATFORMS))


def find(
    name: str,
    *,
    platform: str = "",
    insecure_registries: Collection[str] = (),
    patience: float = PATIENCE_SECONDS,
) -> Image:
    """The image of this name. Of one for several platforms, that for `platform`, or for this machine."""
    wanted = Reference.parse(name)
    source = Repository(wanted, insecure_registries=insecure_registries, patience=patience)
    document = source.manifest(wanted.version, (*LAYERS, *_INDEXES))
    if _media_type(document, wanted) in _INDEXES:
        document = source.manifest(_chosen(document, platform, wanted), LAYERS)
    media_type = _media_type(document, wanted)
    if media_type not in LAYERS:
        raise InputError(f"is no image that can be built on: {media_type}", where=name)
    with _understood(wanted):
        manifest = json.loads(document.content)
        _check(manifest)
        config = json.loads(source.document(manifest["config"]["digest"]))
        if len(config["rootfs"]["diff_ids"]) != len(manifest["layers"]):
            raise ValueError("configuration and manifest differ in the number of layers")
        image = Image(source, digest_of(document.content), media_type, manifest, config)
        dict(image.environment)
        its_own = image.platform
    if platform and not f"{platform}/".startswith(f"{its_own}/"):
        raise InputError(f"is for {its_own}, not for {platform}", where=name)
    return image


def _chosen(index: Document, platform: str, where: Reference) -> str:
    """The digest of the manifest for a platform."""
    wanted = platform or THIS_MACHINE
    offered: dict[str, str] = {}
    with _understood(where):
        for entry in json.loads(index.content)["manifests"]:
            about = entry.get("platform") or {}
            parts = (about.get("os"), about.get("architecture"), about.get("variant"))
            offered.setdefault("/".join(filter(None, parts)), _digest(entry))
    for name, digest in offered.items():
        if f"{name}/".startswith(f"{wanted}/"):
            return digest
    there = ", ".join(name for name in offered if name and "unknown" not in name)
    raise InputError(f"there is none for {wanted}", where=str(where), remedy=f"it is there for {there}")


def _check(manifest: dict[str, Any]) -> None:
    for part in (manifest["config"], *manifest["layers"]):
        if not (_digest(part) and isinstance(part["size"], int) and part["size"] >= 0):
            raise ValueError(f"{part['size']!r} is no size")
    kind = manifest["config"]["mediaType"]
    if kind not in _CONFIGS:
        raise ValueError(f"it holds {kind}, which nothing can run")


def _digest(part: dict[str, Any]) -> str:
    if not DIGEST.fullmatch(part["digest"]):
        raise ValueError(f"{part['digest']!r} is no digest")
    return str(part["digest"])


def _media_type(document: Document, where: Reference) -> str:
    with _understood(where):
        return str(json.loads(document.content).get("mediaType") or document.media_type)


@contextmanager
def _understood(where: Reference) -> Iterator[None]:
    """What is said in here is written by others, and may be anything."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        told = str(error) if isinstance(error, ValueError) else repr(error)
        raise ElasticError(f"the registry gives what is no image: {told}", where=str(where)) from error
