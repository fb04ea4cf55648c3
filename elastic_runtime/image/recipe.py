"""What a builder is given: a Dockerfile, and beside it a folder with all that the user's own folder lacks.

In the image, the model zoo is `/model_zoo` and the cluster's specification `/cluster_spec/<file>`. What
changes often comes last, so that another version of a model is one small layer.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.errors import InputError
from elastic_runtime.image.package import NAME, pack
from elastic_runtime.image.requirements import requirements

PYTHON_IMAGE = "python:3.11-slim-bookworm"
MODEL_ZOO, CLUSTER_SPEC = "/model_zoo", "/cluster_spec"
BESIDE = ".elasticdl"
NO_PART_OF_A_MODEL = shutil.ignore_patterns(".git", ".venv", "__pycache__", "runs", BESIDE, "Dockerfile")
USER = 1000

_MARK = "# Written by `elasticdl zoo init`, which replaces a file with this first line, and no other."
_INSTALLED = ("ps", "train")
_DOCKERFILE = f"""\
{_MARK}
FROM {{base}}
USER root
ENV HOME=/home/elasticdl PYTHONUNBUFFERED=1 \\
    PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN mkdir -p /home/elasticdl && chmod 1777 /home/elasticdl
WORKDIR /home/elasticdl
{{index}}
# What the base image has already is not installed again.
COPY {BESIDE}/requirements.txt /opt/elasticdl/zoo/
RUN (python -c "import tensorflow" 2>/dev/null || python -m pip install "{{tensorflow}}") \\
 && python -m pip install -r /opt/elasticdl/zoo/requirements.txt

COPY {BESIDE}/wheels /opt/elasticdl/zoo/wheels
RUN python -m pip install /opt/elasticdl/zoo/wheels/*.whl \\
 && python -m pip install --no-deps --force-reinstall /opt/elasticdl/zoo/wheels/*.whl
{{model}}RUN chmod -R a+rX {{copied}}
USER {USER}
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What goes into an image. `model_zoo` is a folder of the context; wheels may replace our own."""

    model_zoo: Path
    base_image: str = ""
    extra_pypi_index: str = ""
    local_pkg_dir: Path | None = None
    cluster_spec: Path | None = None


def write(recipe: Recipe, context: Path) -> Path:
    """Writes the Dockerfile, and what it needs besides the model zoo, into `context`; returns its path."""
    zoo, wheels = _inside(recipe.model_zoo, context), _wheels(recipe.local_pkg_dir)
    if recipe.cluster_spec and not recipe.cluster_spec.is_file():
        raise InputError(f"there is no file {recipe.cluster_spec}", where="--cluster_spec")
    dockerfile, beside = context / "Dockerfile", context / BESIDE
    if dockerfile.exists() and not dockerfile.read_text(errors="replace").startswith(_MARK):
        raise InputError("is not one of ours, and stays", where=str(dockerfile), remedy="move it away")
    shutil.rmtree(beside, ignore_errors=True)
    tensorflow = _packages(beside, wheels)
    index = f"ARG PIP_EXTRA_INDEX_URL={json.dumps(recipe.extra_pypi_index)}\n"
    model, copied = _model(zoo, context), MODEL_ZOO
    if recipe.cluster_spec:
        (beside / "cluster_spec").mkdir()
        shutil.copy(recipe.cluster_spec, beside / "cluster_spec")
        model += f"COPY {BESIDE}/cluster_spec {CLUSTER_SPEC}\n"
        copied += f" {CLUSTER_SPEC}"
    dockerfile.write_text(
        _DOCKERFILE.format(
            base=recipe.base_image or PYTHON_IMAGE,
            index=index if recipe.extra_pypi_index else "",
            tensorflow=tensorflow,
            model=model,
            copied=copied,
        )
    )
    return dockerfile


def _packages(beside: Path, wheels: list[Path]) -> str:
    """Wheels, and what our own needs, but for TensorFlow, which the base may have; that is returned."""
    folder = beside / "wheels"
    folder.mkdir(parents=True)
    for wheel in wheels:
        shutil.copy(wheel, folder)
    program = next(folder.glob(f"{NAME}-*.whl"), None) or pack(folder)
    needed = dict.fromkeys(requirements(program, _INSTALLED))
    tensorflow = next(line for line in needed if line.startswith("tensorflow"))
    del needed[tensorflow]
    (beside / ".gitignore").write_text("*\n")
    (beside / "requirements.txt").write_text("".join(f"{line}\n" for line in needed))
    return tensorflow


def digest(context: Path) -> str:
    """A short hash of all that a context holds: another one, another image."""
    content = hashlib.sha256()
    for path in sorted(path for path in context.rglob("*") if path.is_file()):
        data = path.read_bytes()
        content.update(f"{path.relative_to(context)}\0{len(data)}\0".encode() + data)
    return content.hexdigest()[:12]


def _inside(zoo: Path, context: Path) -> str:
    if not zoo.is_dir():
        raise InputError(f"there is no folder {zoo}", where="--model_zoo")
    place, root = zoo.resolve(), context.resolve()
    if not place.is_relative_to(root):
        raise InputError(
            f"{zoo} is outside {root}, and a builder sees only what is inside",
            where="--model_zoo",
            remedy=f"do this in {place.parent}",
        )
    return place.relative_to(root).as_posix()


def _wheels(folder: Path | None) -> list[Path]:
    wheels = sorted(folder.glob("*.whl")) if folder else []
    if folder and not wheels:
        raise InputError(
            f"there is no wheel in {folder}",
            where="--local_pkg_dir",
            remedy=f"pip wheel --no-deps --wheel-dir {folder} SOURCES",
        )
    return wheels


def _model(zoo: str, context: Path) -> str:
    listed = f"{zoo}/requirements.txt"
    lines = []
    if (context / listed).is_file():
        lines += [
            f"COPY {json.dumps([listed, '/opt/elasticdl/zoo/model_zoo.txt'])}",
            "RUN python -m pip install -r /opt/elasticdl/zoo/model_zoo.txt",
        ]
    return "".join(f"{line}\n" for line in ["", *lines, f"COPY {json.dumps([zoo, MODEL_ZOO])}"])
