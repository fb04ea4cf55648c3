"""Registries of images, through the API that all of them have, with no program of anybody else's."""

from elastic_runtime.image.registry.reference import Reference
from elastic_runtime.image.registry.repository import Repository

__all__ = ["Reference", "Repository"]
