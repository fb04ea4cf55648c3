"""Builds the image of a job where nothing may build one: the user's models, and packages, on top of another.

The step needs no Docker and no rights: it writes a layer or two and hands them to the registry. The same
models on the same base give the same digest, so running it again is a few questions and changes nothing.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from elastic_runtime.data import storage
from elastic_runtime.errors import InputError
from elastic_runtime.image.append import push
from elastic_runtime.image.base import THIS_MACHINE, Image, check_platform, find
from elastic_runtime.image.layer import Layer, pack
from elastic_runtime.image.packages import install
from elastic_runtime.image.recipe import MODEL_ZOO, NO_PART_OF_A_MODEL
from elastic_runtime.image.registry import Reference
from elastic_runtime.steps.artifact import Artifact, Folder, location
from elastic_runtime.steps.options import known

log = logging.getLogger(__name__)

PACKAGES = "/opt/elasticdl/packages"


def build_image(
    *,
    base_image: str,
    repository: str,
    model_zoo: str = "",
    model_zoo_artifact: Artifact | None = None,
    requirements: str = "",
    platform: str = "",
    insecure_registries: str = "",
) -> str:
    """Pushes the image, and returns the name that means it for ever, `repository@sha256:...`."""
    check(dict(locals()))
    target, insecure = Reference.parse(repository), _hosts(insecure_registries)
    zoo = location(model_zoo_artifact or Folder(model_zoo))
    base = find(base_image, platform=platform, insecure_registries=insecure)
    with tempfile.TemporaryDirectory(prefix="elasticdl-image-") as folder:
        models = _models(zoo, Path(folder))
        packages = _packages(_lines(models, requirements), base, Path(folder))
        said = f"elasticdl: the model zoo, as {MODEL_ZOO}"
        layers = [*packages, pack(models, inside=MODEL_ZOO, file=Path(folder, "models.tar.gz"), said=said)]
        environment = _with_packages(base.environment) if packages else {}
        image = push(base, layers, target, environment=environment, insecure_registries=insecure)
    log.info("the image is %s: %s on %s", image, zoo, base.name)
    return image


def check(given: Mapping[str, object]) -> None:
    """Refuse what is known to be wrong before anything runs; what is known only then is left to the step."""
    plain = {name: str(value) for name, value in known(given).items()}
    images = {name: Reference.parse(plain[name]) for name in ("repository", "base_image") if name in plain}
    if "repository" in images and images["repository"].digest:
        raise InputError("a digest is what comes out, not where it goes", where=plain["repository"])
    check_platform(plain.get("platform", ""))
    for host in _hosts(plain.get("insecure_registries", "")):
        if not _is_registry(host):
            remedy = "write its name alone, registry.example:5000"
            raise InputError(f"{host!r} is no registry", where="insecure_registries", remedy=remedy)
    has_artifact = given.get("model_zoo_artifact") is not None
    if has_artifact and plain.get("model_zoo"):
        raise InputError("the model zoo is named twice", where="model_zoo", remedy="leave one out")
    if not has_artifact and not given.get("model_zoo"):
        raise InputError("no model zoo is named", where="model_zoo", remedy="name a folder, or its URI")


def _is_registry(host: str) -> bool:
    try:
        return Reference.parse(f"{host}/any").registry == host
    except InputError:
        return False


def _hosts(text: str) -> list[str]:
    return [host.strip() for host in text.split(",") if host.strip()]


def _models(zoo: str, folder: Path) -> Path:
    """A copy of the zoo that holds what belongs into an image, and stays as it is."""
    here = storage.local_path(zoo)
    try:
        if not storage.is_folder(zoo):
            raise InputError("there is no such folder", where=zoo)
        if here is None:
            here = str(folder / "fetched")
            storage.fetch_folder(zoo, Path(here))
        models = folder / "models"
        shutil.copytree(here, models, ignore=NO_PART_OF_A_MODEL, ignore_dangling_symlinks=True)
    except shutil.Error as error:
        source, _, why = error.args[0][0]
        raise InputError(f"cannot be copied: {why}", where=source) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=zoo) from error
    return models


def _lines(models: Path, requirements: str) -> list[str]:
    """The lines of a requirements file: the zoo's own one, and what is asked for besides."""
    own = models / "requirements.txt"
    return [*([f"-r {own}"] if own.is_file() else []), *filter(str.strip, requirements.splitlines())]


def _packages(lines: Sequence[str], base: Image, folder: Path) -> list[Layer]:
    """The layer of the user's packages; none where the image has them all."""
    if not lines:
        return []
    _check(base)
    found = install(lines, folder / "packages")
    log.info("packages that the image lacks: %s", ", ".join(found) or "none")
    if not found:
        return []
    said = f"elasticdl: {', '.join(found)}"
    return [pack(folder / "packages", inside=PACKAGES, file=folder / "packages.tar.gz", said=said)]


def _check(base: Image) -> None:
    """Packages are chosen for the Python that runs this, so the image must not be known to have another."""
    here = f"Python {sys.version_info.major}.{sys.version_info.minor} on {THIS_MACHINE}"
    version = base.environment.get("PYTHON_VERSION", ".".join(map(str, sys.version_info[:2])))
    there = f"Python {'.'.join(version.split('.')[:2])} on {base.platform}"
    if there != here:
        what, remedy = f"has {there}, and packages are chosen for {here}", "run this step in the base image"
        raise InputError(what, where=str(base.name), remedy=remedy)


def _with_packages(environment: dict[str, str]) -> dict[str, str]:
    others = [place for place in environment.get("PYTHONPATH", "").split(":") if place and place != PACKAGES]
    return {"PYTHONPATH": ":".join([*others, PACKAGES])}
