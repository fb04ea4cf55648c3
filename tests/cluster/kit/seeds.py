"""What a new cluster knows already: our images in its registry, and their layers on its nodes, unpacked.

These are two gigabytes, nearly all of them dependencies. They are pulled and unpacked once, and clusters
begin with links to files that are never written to again; so a pod's first image is there in a second. What
is pushed or pulled later goes the ordinary way, which is short where only our own code differs. A cluster on
another file system than the cache begins empty.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.cluster.kit.binaries import cache_folder, key
from tests.cluster.kit.commands import PLAIN_ENVIRONMENT, run, until
from tests.process.image.registries import registry

ROOT = Path(__file__).parents[3]
MADE_FROM = (  # a change of our code changes only the last, small layers
    ROOT / "images" / "Dockerfile",
    ROOT / "constraints.txt",
    ROOT / "pyproject.toml",
    Path(__file__),
)
KEPT = Path("docker", "registry", "v2")  # within the folder of a registry
CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{folder}/socket"
"""
STARTS_WITHIN_SECONDS = 60
OLD_SECONDS = 24 * 3600


def grow(images: Mapping[str, str], push: Callable[[str, str], object]) -> None:
    """Has clusters from now on know these images: by repository and tag, what `push(image, name)` pushes."""
    with _turn(fcntl.LOCK_EX):
        folder = _folder()
        list_of_them = folder / "images.json"
        known = json.loads(list_of_them.read_text()) if list_of_them.exists() else {}
        if missing := {name: image for name, image in images.items() if known.get(name) != image}:
            _remove_old_ones()
            folder.mkdir(exist_ok=True)
            with registry(folder / "server") as address:
                for name, image in missing.items():
                    push(image, f"{address}/{name}")
                if not (folder / "containerd").exists():
                    _pull([f"{address}/{name}" for name in images], folder)
            list_of_them.write_text(json.dumps(known | missing))


def plant_registry(folder: Path) -> None:
    """Into the folder of a registry that is not started yet."""
    with _turn(fcntl.LOCK_SH):
        grown = _folder() / "server" / "images" / KEPT
        if _can_be_linked(grown, folder):
            (folder / KEPT).mkdir(parents=True)
            run("cp", "-a", grown / "repositories", folder / KEPT)  # tags are written to
            run("cp", "-al", grown / "blobs", folder / KEPT)


def plant_node(disk: Path) -> None:
    """Onto the disk of a node that has never been switched on."""
    grown, folder = _folder() / "containerd", disk / "lib" / "containerd"
    if not folder.exists() and _can_be_linked(grown, folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        run("cp", "-al", grown, folder)
        for database in folder.glob("*/*.db"):  # is written to
            own = database.with_suffix(".own")
            shutil.copy(database, own)
            own.replace(database)


def _can_be_linked(grown: Path, place: Path) -> bool:
    home = next(parent for parent in place.parents if parent.exists())
    return grown.exists() and grown.stat().st_dev == home.stat().st_dev


def _folder() -> Path:
    return _cache() / key(MADE_FROM)


def _cache() -> Path:
    return cache_folder().with_name("seeds")


@contextmanager
def _turn(kind: int) -> Iterator[None]:
    """Nobody plants what is just growing."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        fcntl.flock(lock, kind)
        yield


def _remove_old_ones() -> None:
    for old in _cache().iterdir():
        if old.is_dir() and old != _folder() and old.stat().st_mtime < time.time() - OLD_SECONDS:
            shutil.rmtree(old)


def _pull(names: list[str], folder: Path) -> None:
    """Makes `containerd` in the folder, with these images unpacked in it."""
    scratch = folder / "unfinished"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    with _containerd(scratch) as ctr:
        for name in names:
            run(*ctr, "images", "pull", "--plain-http", name)
    (scratch / "containerd").rename(folder / "containerd")
    shutil.rmtree(scratch)


@contextmanager
def _containerd(folder: Path) -> Iterator[tuple[str, ...]]:
    """One that only pulls; how it is told to."""
    (folder / "containerd.toml").write_text(CONTAINERD.format(folder=folder))
    ctr = ("ctr", f"--address={folder}/socket", "--namespace=k8s.io")
    with (folder / "containerd.log").open("w") as log:
        process = subprocess.Popen(
            ["containerd", "--config", folder / "containerd.toml"],
            stdout=log,
            stderr=log,
            env=PLAIN_ENVIRONMENT,
        )
    try:
        runs = partial(run, *ctr, "version", check=False)
        until(lambda: "Server:" in runs(), what="containerd runs", seconds=STARTS_WITHIN_SECONDS)
        yield ctr
    finally:
        process.terminate()
        process.wait(STARTS_WITHIN_SECONDS)
