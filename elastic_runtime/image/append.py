"""An image made of another one and layers on top of it, by nothing but questions to registries.

    base = find("registry.example/elasticdl:1")
    push(base, [layer], Reference.parse("registry.example/team/model"))  # "...team/model@sha256:..."

What the target's registry has already stays where it is. The manifest is the last thing sent, so a tag names
either the old image or the new one. The same base and layers make the same digest.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Collection, Sequence
from typing import Any

from elastic_runtime.image.base import LAYERS, Image
from elastic_runtime.image.layer import Layer
from elastic_runtime.image.registry.blob import Blob, Document, digest_of
from elastic_runtime.image.registry.reference import Reference
from elastic_runtime.image.registry.repository import PATIENCE_SECONDS, Repository

log = logging.getLogger(__name__)

_ANY_TIME = "1970-01-01T00:00:00Z"
_NAME_OF_BASE = "org.opencontainers.image.base"


def push(
    base: Image,
    layers: Sequence[Layer],
    target: Reference,
    *,
    environment: dict[str, str],
    insecure_registries: Collection[str] = (),
    patience: float = PATIENCE_SECONDS,
) -> str:
    """Pushes `base` with `layers` on top; returns the name that means this image for ever.

    Without a tag in `target`, it gets one made of its digest, lest a registry takes it for left behind.
    """
    repository = Repository(
        target,
        writes=True,
        neighbour=base.name.repository if base.name.registry == target.registry else "",
        insecure_registries=insecure_registries,
        patience=patience,
    )
    config = Blob.of(_written(_config(base, layers, environment)))
    for blob in (*(layer.blob for layer in layers), config):
        repository.put_blob(blob)
    for told in base.manifest["layers"]:
        _copy(base, told, repository)
    manifest = {
        "schemaVersion": 2,
        "mediaType": base.media_type,
        "config": {**base.manifest["config"], **_described(config)},
        "layers": [
            *base.manifest["layers"],
            *({"mediaType": LAYERS[base.media_type], **_described(layer.blob)} for layer in layers),
        ],
    }
    content = _written(manifest)
    tag = target.tag or digest_of(content).removeprefix("sha256:")[:12]
    digest = repository.put_manifest(Document(content, base.media_type), tag)
    return f"{target.registry}/{target.repository}@{digest}"


def _copy(base: Image, told: dict[str, Any], repository: Repository) -> None:
    digest = told["digest"]
    blob = Blob(digest, told["size"], lambda: base.source.chunks(digest))
    if repository.put_blob(blob, shared=True):
        log.info("copied a layer of %s, %.1f MB", base.name, blob.size / 1e6)


def _config(base: Image, layers: Sequence[Layer], environment: dict[str, str]) -> dict[str, Any]:
    """The base's, with what the layers add to it."""
    config = copy.deepcopy(base.config)
    run = config["config"] = config.get("config") or {}
    run["Env"] = [f"{name}={value}" for name, value in (base.environment | environment).items()]
    run["Labels"] = (run.get("Labels") or {}) | {
        f"{_NAME_OF_BASE}.name": str(base.name),
        f"{_NAME_OF_BASE}.digest": base.digest,
    }
    config["rootfs"]["diff_ids"] += [layer.diff_id for layer in layers]
    if config.get("history"):  # all layers are in it or none
        created = config.get("created") or _ANY_TIME
        config["history"] += [{"created": created, "created_by": layer.said} for layer in layers]
    return config


def _written(told: dict[str, Any]) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode()


def _described(blob: Blob) -> dict[str, Any]:
    return {"digest": blob.digest, "size": blob.size}
