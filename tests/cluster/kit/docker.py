#!/usr/bin/env python3
"""What a reader types as `docker`, done by buildah, as far as our pages type it: `build`, `push` and `run`.

It is linked into a reader's PATH as `docker`, and builds where its environment says (`builder.environment`).
A named volume is a folder in DOCKER_VOLUMES, which is filled from the image when it is new, as by Docker.
All else is refused, `docker version` too, so `elasticdl` looks for another builder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path


def build(words: list[str]) -> int:
    """`docker build`; what is left out of the context is told beside the Dockerfile, as Docker has it."""
    asked = argparse.ArgumentParser(prog="docker build")
    asked.add_argument("-f", "--file", default="Dockerfile")
    asked.add_argument("-t", "--tag", action="append", default=[])
    given, others = asked.parse_known_args(words)
    ignored = Path(f"{given.file}.dockerignore")
    leaving = (f"--ignorefile={ignored}",) if ignored.exists() else ()
    tags = [f"--tag={full(tag)}" for tag in given.tag]
    return buildah("build", "--layers", *leaving, f"--file={given.file}", *tags, *others)


def push(words: list[str]) -> int:
    """`docker push`; within one machine, compressing takes longer than sending."""
    return buildah("push", "--quiet", "--disable-compression", *words)


def run(words: list[str]) -> int:
    """`docker run`: a container that is removed when its command has ended."""
    asked = argparse.ArgumentParser(prog="docker run")
    asked.add_argument("--rm", action="store_true", required=True)
    asked.add_argument("-it", action="store_true")
    asked.add_argument("-u", "--user")
    asked.add_argument("-w", "--workingdir")
    asked.add_argument("-v", "--volume", action="append", default=[])
    asked.add_argument("--net", choices=["host"])  # here they all are
    asked.add_argument("image")
    asked.add_argument("command", nargs=argparse.REMAINDER)
    given = asked.parse_args(words)
    options = [f"--{name}={getattr(given, name)}" for name in ("user", "workingdir") if getattr(given, name)]
    container = told("from", "--pull=never", full(given.image))
    try:
        volumes = [f"--volume={mounted(container, volume)}" for volume in given.volume]
        command = given.command or json.loads(told("inspect", container))["OCIv1"]["config"]["Cmd"]
        return buildah("run", *options, *volumes, container, "--", *command)
    finally:
        told("rm", container)


def full(image: str) -> str:
    """The name with a place before it; buildah would give a bare one to any image that ends like it."""
    return image if "/" in image else f"localhost/{image}"


def mounted(container: str, volume: str) -> str:
    """The volume with a folder of this machine for its name."""
    name, _, place = volume.partition(":")
    if "/" in name:
        return volume
    folder = Path(os.environ["DOCKER_VOLUMES"]) / name
    if not folder.exists():
        inside = Path(told("mount", container)) / place.lstrip("/")
        shutil.copytree(inside, folder)
        told("umount", container)
    return f"{folder}:{place}"


def buildah(*words: str) -> int:
    return subprocess.run(["buildah", *words], check=False).returncode


def told(*words: str) -> str:
    return subprocess.run(["buildah", *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and the container goes
    verb = {"build": build, "push": push, "run": run}.get(sys.argv[1] if sys.argv[1:] else "")
    sys.exit(verb(sys.argv[2:]) if verb else f"docker: there is only buildah here: {sys.argv[1:]}")
