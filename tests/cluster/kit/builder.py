"""The images that users get, built from `images/Dockerfile` as it is, and pushed to a cluster.

There is no registry of images to pull from, so the one image it begins with is made of Debian's packages and
bears the name that its `FROM` uses. The builder is buildah, with storage and settings of the kit's own; it
finds them through its environment, so whoever is given `environment()` builds, unchanged, in the same place.
This machine's settings of pip and its certificates are mounted while a step runs, and are in no image.

    made = images(cluster)      # the first time minutes, then seconds
    made.base, made.tensorflow  # names that pods of the cluster can pull
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import took
from tests.cluster.kit import images as registry_images
from tests.cluster.kit import requirements, seeds
from tests.cluster.kit.binaries import cache_folder
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.commands import PLAIN_ENVIRONMENT, run
from tests.cluster.kit.site import NUMBERS, Site

QUOTES = "'\""
ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "images" / "Dockerfile"
SOURCES = (
    "images",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "constraints.txt",
    "elastic_runtime",
    "model_zoo",
    "scripts",
)
PYTHON = "docker.io/library/python:3.11-slim-bookworm"
SUITE = "bookworm"
TARGETS = ("base", "tensorflow")
SEEDS = {
    "elasticdl:base": "base",
    "elasticdl:tensorflow": "tensorflow",
    "elasticdl/elasticdl:seed": "pipelines",
}
WITH_HOROVOD = ("tensorflow", "pipelines", "development")
HOROVOD = "/home/elasticdl/.cache/elasticdl/horovod"  # where its builder keeps wheels
PACKAGES = "ca-certificates python3 python3-dev python3-pip python3-venv python-is-python3"
PYTHON_DOCKERFILE = """\
FROM scratch
ADD root.tar /
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
CMD ["python3"]
"""
# As in the official image, pip may install into the only Python there is.
UNLIKE_OFFICIAL = (
    "usr/lib/python3*/EXTERNALLY-MANAGED",
    "var/lib/apt/lists/*",
    "var/cache/apt/*",
    "var/log/*",
)


@dataclass(frozen=True, slots=True)
class Images:
    """Names of the images in the cluster's registry."""

    base: str
    tensorflow: str


def build_all() -> None:
    """Builds what tests of the cluster run, and notes how long that took."""
    began, first = time.monotonic(), not exists(_base_name())
    missing = [target for target in SEEDS.values() if not exists(_name(target, {}))]
    for target in missing:
        build(target)
    seeds.grow({name: _name(target, {}) for name, target in SEEDS.items()}, bring)
    if missing:
        what = "images of users, from nothing" if first else "images of users, when sources have changed"
        took.note(what, time.monotonic() - began)


def images(cluster: Cluster) -> Images:
    """Builds what is not built yet, and pushes it."""
    return Images(*(push(cluster, target) for target in TARGETS))


def push(cluster: Cluster, target: str) -> str:
    """Pushes the image of a stage of the Dockerfile; returns the name that it has in the registry."""
    name = f"{cluster.site.registry}/elasticdl:{target}"
    built = build(target)
    began = time.monotonic()
    bring(built, name)
    _say(f"{name} is there after {time.monotonic() - began:.0f} s")
    return name


def bring(image: str, name: str) -> None:
    """Has a registry know an image by this name, if it does not yet; it may know it by that of a seed."""
    mark = buildah("images", "--quiet", "--no-trunc", image).strip()
    known = [f"{name.partition('/')[0]}/{seed}" for seed in SEEDS]
    if registry_images.mark_of(name) == mark:
        return
    if found := next((each for each in known if registry_images.mark_of(each) == mark), ""):
        registry_images.copy(found, name)
    else:
        with _turn("push"), tempfile.TemporaryDirectory(dir=_folder(), prefix="unfinished-") as folder:
            archive = Path(folder) / "image.tar"
            buildah("push", "--quiet", image, f"docker-archive:{archive}")
            registry_images.push_archive(archive, name, mark)


def build(target: str, **arguments: str) -> str:
    """Builds a stage of the Dockerfile; returns its name, which tells all that it was made from."""
    name = _name(target, arguments)
    if exists(name):
        return name
    with _turn("build"):
        base_image()
        if not exists(name):
            _build(target, name, arguments)
    return name


def _name(target: str, arguments: dict[str, str]) -> str:
    words = hashlib.sha256(f"{_made_from()} {json.dumps(arguments)}".encode()).hexdigest()[:12]
    return f"localhost/elasticdl-{target}:{words}"


def _build(target: str, name: str, arguments: dict[str, str]) -> None:
    began = time.monotonic()
    _say(f"building the image {target}: seconds, or minutes if dependencies have changed")
    given = [f"--build-arg={key}={value}" for key, value in arguments.items()]
    ignored = DOCKERFILE.with_name("Dockerfile.dockerignore")
    common = ("build", "--quiet", f"--ignorefile={ignored}", "-f", DOCKERFILE, *given)
    if target in WITH_HOROVOD:
        buildah(*common, f"--volume={_horovod()}:{HOROVOD}", "--target=horovod", ROOT)
    buildah(*common, f"--target={target}", "-t", name, ROOT)
    _say(f"the image {target} is built after {time.monotonic() - began:.0f} s")


def _horovod() -> Path:
    """Where wheels of Horovod are kept, so that it is not compiled again when a layer below has changed.

    Those of this machine's own environment will do if it is the same Debian.
    """
    same = platform.freedesktop_os_release().get("VERSION_CODENAME") == SUITE
    kept = cache_folder().with_name("horovod") if same else _folder() / "horovod"
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def base_image() -> str:
    """The image that Dockerfiles begin with, made of Debian's packages."""
    name = _base_name()
    if not exists(name):
        _say(f"making the image {PYTHON} of Debian's packages, once: a minute")
        with tempfile.TemporaryDirectory(dir=_folder(), prefix="unfinished-") as folder:
            root = Path(folder) / "root"
            packages = ",".join(PACKAGES.split())
            run("debootstrap", "--variant=minbase", f"--include={packages}", SUITE, root)
            for path in (path for pattern in UNLIKE_OFFICIAL for path in root.glob(pattern)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            (root / "etc" / "pip.conf").touch()
            run("tar", "-C", root, "-cf", Path(folder) / "root.tar", ".")
            (Path(folder) / "Dockerfile").write_text(PYTHON_DOCKERFILE)
            buildah("build", "--quiet", "-t", name, folder)
    buildah("tag", name, PYTHON)
    return PYTHON


def _base_name() -> str:
    recipe = hashlib.sha256("\0".join((SUITE, PACKAGES, PYTHON_DOCKERFILE, *UNLIKE_OFFICIAL)).encode())
    return f"localhost/python-base:{recipe.hexdigest()[:12]}"


def exists(image: str) -> bool:
    """Whether there is an image of this name."""
    return bool(buildah("images", "--quiet", "--filter", f"reference={image}"))


def buildah(*arguments: object) -> str:
    """Runs buildah on the kit's storage, and returns what it printed."""
    return run("buildah", *arguments, env=environment())


@functools.cache
def environment() -> dict[str, str]:
    """What makes any buildah, that of `elasticdl zoo` too, use the kit's storage and settings."""
    requirements.install()
    folder = _folder()
    storage = {"driver": "overlay", "graphroot": str(folder / "storage"), "runroot": str(folder / "run")}
    mounts = [
        f"{_pip_settings(folder)}:/etc/pip.conf:ro",
        "/etc/ssl/certs:/etc/ssl/certs:ro",
    ]
    plain = [{"location": Site(number).registry, "insecure": True} for number in NUMBERS]
    settings = {
        "CONTAINERS_STORAGE_CONF": _keep(folder / "storage.conf", _toml("[storage]", storage)),
        "CONTAINERS_CONF": _keep(
            folder / "containers.conf", _toml("[containers]", {"netns": "host", "volumes": mounts})
        ),
        "CONTAINERS_REGISTRIES_CONF": _keep(
            folder / "registries.conf",
            _toml("", {"unqualified-search-registries": ["docker.io"]})
            + "".join(_toml("[[registry]]", registry) for registry in plain),
        ),
    }
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return PLAIN_ENVIRONMENT | proxies | settings | {"BUILDAH_ISOLATION": "chroot", "BUILDAH_LAYERS": "true"}


def _pip_settings(folder: Path) -> str:
    """A `pip.conf` of all that pip is told here, by files and by its environment."""
    lines = ["[global]"]
    for line in run(sys.executable, "-m", "pip", "config", "list", env=dict(os.environ)).splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in {"global", "install", ":env:"} and option != "find-links":  # a folder of this machine
            lines.append(f"{option} = {value.strip(QUOTES)}")
    return _keep(folder / "pip.conf", "\n".join(dict.fromkeys(lines)) + "\n")


def _toml(head: str, values: dict[str, Any]) -> str:
    """A table; of strings, truths and lists, JSON has the same spelling."""
    return "".join(
        f"{line}\n" for line in [head, *(f"{name} = {json.dumps(values[name])}" for name in values)]
    )


def _keep(path: Path, content: str) -> str:
    """Writes it, whole at once, for another session may read it now."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix="unfinished-", delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
    return str(path)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(found for found in path.rglob("*") if found.is_file() and "__pycache__" not in found.parts)


@functools.cache
def _made_from() -> str:
    """A hash of all that images are made from; one for the whole session, whoever edits meanwhile."""
    content = hashlib.sha256()
    for path in (path for name in SOURCES for path in _files(ROOT / name)):
        data = path.read_bytes()
        content.update(f"{path.relative_to(ROOT)} {len(data)}\n".encode() + data)
    return content.hexdigest()


@contextmanager
def _turn(what: str) -> Iterator[None]:
    """One process at a time builds, and one pushes; the others find it done."""
    with (_folder() / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder() -> Path:
    folder = cache_folder().with_name("images")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _say(line: str) -> None:
    print(f"images: {line}", file=sys.stderr, flush=True)
