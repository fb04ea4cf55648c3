"""Typing what a tutorial says: its commands are read out of the page, so the two cannot drift apart.

A page marks what is typed by a comment before the fence, `<!-- block: NAME -->`, and the content of a file by
`<!-- file: NAME -->`. A `Terminal` is a folder with the sources in it, in which blocks are run by bash,
unchanged but for the substitutions it was given, each of which has to apply to something before the end.
`docker` is there, and is buildah.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.kit import builder, docker
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace

PAGES = builder.ROOT / "docs" / "tutorials"
BLOCK = re.compile(r"<!-- (block|file): (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
SECONDS = 1200.0
LOOK = 0.2
Changes = Mapping[str, str | Callable[[re.Match[str]], str]]
NO_SOURCES = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "build", "runs"
)


class Page:
    """What a tutorial has its reader type, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        found = BLOCK.findall((PAGES / name).read_text())
        self.blocks = {block: typed for kind, block, typed in found if kind == "block"}
        self.files = {file: content for kind, file, content in found if kind == "file"}


class Run:
    """A block that was begun, and what is typed into the program that it starts; its output is in a file."""

    def __init__(self, terminal: Terminal, block: str, typed: str, given: str = "") -> None:
        self.terminal, self.block = terminal, block
        self.output = terminal.folder.parent / f"{block}.txt"
        (keys := terminal.folder.parent / f"{block}.keys").write_text(given)
        with self.output.open("ab") as output, keys.open() as keyboard:
            self.process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", typed],
                cwd=terminal.folder,
                env=terminal.environment,
                stdin=keyboard,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def text(self) -> str:
        """All it has printed so far."""
        return self.output.read_text(errors="replace")

    def until(self, condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
        """Wait until something is so; what it then is."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            ended = self.process.poll() is not None
            if found := condition():
                break
            assert not ended, f"{self.block} ended before: {what}\n{self.report()}"
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{self.report()}"
            time.sleep(LOOK)
        return found

    def until_said(self, pattern: str, *, times: int = 1, seconds: float = SECONDS) -> None:
        """Wait until it has printed this so often."""
        self.until(lambda: len(re.findall(pattern, self.text())) >= times, f"{pattern!r} is said", seconds)

    def ends(self, seconds: float = SECONDS) -> str:
        """Wait until it has ended well; all it printed."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {seconds:g} s: {self.report()}") from None
        assert code == 0, f"exit code {code}: {self.report()}"
        return self.text()

    def report(self) -> str:
        """What is known when something is wrong."""
        pods = self.terminal.namespace.kubectl("get", "pods", "-o", "wide", check=False)
        lines = "\n".join(self.text().splitlines()[-60:])
        return f"{self.block}\n{lines}\n{pods}"

    def close(self) -> None:
        """End it and all that it started."""
        for end in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, end)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)


class Terminal:
    """Where a reader types: a copy of the sources, the cluster's `kubectl`, and the builder that is there."""

    def __init__(self, page: Page, namespace: Namespace, folder: Path, changes: Changes) -> None:
        self.page, self.namespace, self.folder = page, namespace, folder
        within = f"--namespace={namespace.name} "
        self.changes: Changes = {
            r"\b(kubectl|elasticdl train) ": rf"\1 {within}",
            r"--namespace=default\b": within.strip(),
            **changes,
        }
        self.unused = set(changes)
        self.exports = ""
        self.runs: list[Run] = []
        shutil.copytree(builder.ROOT, folder, symlinks=True, ignore=NO_SOURCES)
        for name, content in page.files.items():
            (folder / name).write_text(content)
        programs = folder.parent / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(namespace.cluster.binaries["kubectl"])
        (programs / "docker").symlink_to(docker.__file__)
        self.environment = builder.environment() | {
            "PATH": f"{programs}:{Path(sys.executable).parent}:{builder.environment()['PATH']}",
            "KUBECONFIG": str(namespace.cluster.kubeconfig),
            "DOCKER_VOLUMES": str(folder.parent),
            "GEN_DATA": "sample",  # for scripts/travis/build_images.sh
        }

    def changed(self, text: str) -> str:
        """With the substitutions made."""
        for old, new in self.changes.items():
            text, count = re.subn(old, new, text)
            if count:
                self.unused.discard(old)
        return text

    def edit(self, file: str) -> None:
        """Write into a file what the page says: the same substitutions."""
        path = self.folder / file
        path.write_text(self.changed(path.read_text()))

    def typed(self, block: str) -> str:
        """The block with the substitutions made, in a shell that knows what was exported before."""
        text = self.changed(self.page.blocks[block])
        before = self.exports
        self.exports += "".join(re.findall(r"^export .*\n", text, re.MULTILINE))
        return before + text

    def begin(self, block: str, *, within: tuple[str, ...] = ()) -> Run:
        """Type it, and do not wait; if it opens a shell, type the others there."""
        strictly = "set -euo pipefail\n" if within else ""
        self.runs.append(Run(self, block, self.typed(block), strictly + "".join(map(self.typed, within))))
        return self.runs[-1]

    def type(self, *blocks: str) -> str:
        """Type them one after the other; what they print, the last of them if there are many."""
        return [self.begin(block).ends() for block in blocks][-1]

    def type_once(self, done: set[str], *blocks: str) -> None:
        """Type those that have not been typed at another terminal; what they export is known here too."""
        for block in blocks:
            name = f"{self.page.name}: {block}"
            self.typed(block) if name in done else self.type(block)
            done.add(name)

    def pods(self, job: str) -> dict[str, str]:
        """The phases of a job's pods, by the end of their names; `Deleted` while they are being deleted."""
        found = self.namespace.get("pods", "-l", f"elasticdl_job_name={job}")["items"]
        return {
            pod["metadata"]["name"].removeprefix(f"elasticdl-{job}-"): "Deleted"
            if "deletionTimestamp" in pod["metadata"]
            else pod["status"].get("phase", "")
            for pod in found
        }

    def close(self) -> None:
        """Nobody types any more."""
        for run in self.runs:
            run.close()


def in_the_cloud(cluster: Cluster) -> Changes:
    """What stands in for Google in cloud.md; the data are the sample."""
    return {
        r"gcloud config get-value project -q": "echo tutorials",
        r"gcloud (container|auth) .*": "true",
        r"gcr\.io": cluster.site.registry,
        r"data, mnist, /data/mnist\]": "data, mnist, /data/mnist, --sample]",
    }


@contextmanager
def claim(namespace: Namespace, folder: Path) -> Iterator[None]:
    """The claim `fileserver-claim`: this folder, as a volume that every pod may mount."""
    open_to_pods(folder)
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    bound = {"namespace": namespace.name, "name": "fileserver-claim"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace.name},
        "spec": {
            "capacity": size,
            "accessModes": modes,
            "hostPath": {"path": str(folder)},
            "claimRef": bound,
        },
    }
    wanted = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": ""}
    asked = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "fileserver-claim"},
        "spec": wanted | {"volumeName": namespace.name},
    }
    namespace.cluster.apply(volume)
    try:
        namespace.apply(asked)
        yield
    finally:  # it goes when the namespace, and with it the claim, has gone
        namespace.cluster.kubectl("delete", "persistentvolume", namespace.name, "--wait=false")


def open_to_pods(folder: Path) -> None:
    """Pods are not root, and shall get here, and write."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    for place in folder.parents:
        if place.stat().st_uid == os.getuid() and not place.stat().st_mode & 0o001:
            place.chmod(place.stat().st_mode | 0o011)
