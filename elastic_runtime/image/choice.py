"""Which image a job runs: one that is there already, or one that is built for it, and why.

The rule is stated in docs/images.md. Inside an image, the folders of this machine have other names; they are
told with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.errors import InputError
from elastic_runtime.image.builder import find_builder
from elastic_runtime.image.recipe import MODEL_ZOO, NO_PART_OF_A_MODEL, PYTHON_IMAGE, Recipe, digest, write
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.model_path import resolve


@dataclass(frozen=True, slots=True)
class Built:
    """A job's image, why it is this one, and where the model is inside it."""

    image: str
    said: str
    model_zoo: str
    model_def: str


def image_for(spec: JobSpec, *, build: bool = True) -> Built:
    """The image of the job: found, or built and, where a repository is given, pushed.

    Without `build`, one that would be built is only told.
    """
    builds = bool(spec.base_image or spec.docker_image_repository)
    if spec.image_name and builds:
        raise InputError(
            "--image_name is an image as it is; --base_image and --docker_image_repository have one built",
            remedy="leave one of them out",
        )
    if spec.image_name:
        return _there(spec, spec.image_name, "as --image_name says")
    if spec.base_image and not spec.docker_image_repository and _is_elsewhere(spec.model_zoo):
        return _there(spec, spec.base_image, f"as it is: {spec.model_zoo} is not here, so it is in the image")
    if builds:
        return _build(spec, really=build)
    if spec.worker_image:
        return _there(spec, spec.worker_image, "as --worker_image says")
    raise InputError(
        "a job on Kubernetes needs an image",
        remedy="name one by --image_name, or have it built by --docker_image_repository=REGISTRY/NAME",
    )


def _is_elsewhere(folder: str) -> bool:
    return os.path.isabs(folder) and not os.path.exists(folder)


def _there(spec: JobSpec, image: str, why: str) -> Built:
    model_def = spec.model_def
    with contextlib.suppress(InputError):  # the model may be in the image only
        _, model_def = _model(spec)
    return Built(
        image,
        f"the job runs the image {image}, {why}",
        spec.model_zoo if os.path.isabs(spec.model_zoo) else MODEL_ZOO,
        model_def,
    )


def _build(spec: JobSpec, *, really: bool) -> Built:
    zoo, model_def = _model(spec)
    with tempfile.TemporaryDirectory(prefix="elasticdl-image-") as folder:
        context, models = Path(folder), Path(folder) / "model_zoo"
        shutil.copytree(zoo, models, ignore=NO_PART_OF_A_MODEL, ignore_dangling_symlinks=True)
        recipe = Recipe(
            models,
            base_image=spec.base_image,
            extra_pypi_index=spec.extra_pypi_index,
            cluster_spec=Path(spec.cluster_spec) if spec.cluster_spec else None,
        )
        dockerfile = write(recipe, context)
        tag = f"{spec.docker_image_repository.rstrip('/')}/elasticdl:{digest(context)}".lstrip("/")
        image = tag
        if really:
            builder = find_builder()
            builder.build(dockerfile=dockerfile, context=context, tag=tag)
            image = builder.push(tag) if spec.docker_image_repository else tag
    said = f"the job runs the image {tag}, {'' if really else 'still to be '}built from {zoo}"
    pushed = (
        "pushed" if spec.docker_image_repository else "not pushed, for want of a --docker_image_repository"
    )
    said += f" on {spec.base_image or PYTHON_IMAGE} and {pushed}"
    return Built(image, said, MODEL_ZOO, model_def)


def _model(spec: JobSpec) -> tuple[Path, str]:
    """The folder that is the model zoo, and `model_def` as it is said from there."""
    file, symbol = resolve(spec.model_zoo, spec.model_def)
    if symbol:
        return Path(spec.model_zoo or "."), spec.model_def
    beside = file.parent.parent if Path(spec.model_def).is_dir() else file.parent
    zoo = Path(spec.model_zoo) if spec.model_zoo else beside
    if not file.resolve().is_relative_to(zoo.resolve()):
        raise InputError(
            f"{file} is not in the model zoo {zoo}, and only that goes into the image", where="--model_def"
        )
    return zoo, file.resolve().relative_to(zoo.resolve()).as_posix()
