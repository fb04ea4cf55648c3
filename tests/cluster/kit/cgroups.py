"""The cgroup of a cluster: all its processes are in it from birth, so what is in it is what there is to end.

Version 1 has a tree a controller, version 2 one for all; the kit makes its folder in each tree it finds.
`programs` holds what the kit starts; beside it the kubelets make the cgroups of their pods.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.cluster.kit.commands import until
from tests.cluster.kit.site import Site

JOIN = 'while [ "$1" != -- ]; do echo $$ >"$1"; shift; done; shift; exec "$@"'
CONTROLLERS = "cpu memory pids cpuset io"


def trees() -> list[Path]:
    """Where the machine's cgroup trees are mounted."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(mount[1]) for mount in mounts if mount[2] in {"cgroup", "cgroup2"}]


def make(site: Site, name: str) -> None:
    """Makes `name` in the cluster's cgroup, in every tree, with all that pods in it will need."""
    for tree in trees():
        folder = tree
        for part in (site.name, name):
            _hand_down(folder)
            folder /= part
            folder.mkdir(exist_ok=True)
            for given in ("cpuset.cpus", "cpuset.mems"):
                if (folder / given).exists() and not (tree / "cgroup.controllers").exists():
                    (folder / given).write_text((folder.parent / given).read_text())


def joining(site: Site, name: str, *command: object) -> list[str]:
    """The command line that runs `command` in this cgroup."""
    places = [str(tree / site.name / name / "cgroup.procs") for tree in trees()]
    return ["sh", "-c", JOIN, "sh", *places, "--", *(str(word) for word in command)]


def processes(site: Site, name: str = "") -> set[int]:
    """Of a cluster, or of one cgroup in it: all there are, in any tree."""
    found: set[int] = set()
    for folder in _folders(site, name):
        with suppress(OSError):
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return found - {0}


def holds(site: Site, pid: int) -> bool:
    """Whether the process `pid` is one of the cluster's, and not another that got its number since."""
    try:
        return f"/{site.name}/" in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


def kill(site: Site, *pids: int) -> None:
    """Ends processes of the cluster, and returns when they have ended."""
    handles: list[int] = []
    for pid in pids:
        with suppress(ProcessLookupError):
            handles.append(handle := os.pidfd_open(pid))
            if holds(site, pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    try:
        for handle in handles:
            select.select([handle], [], [], 10)
    finally:
        for handle in handles:
            os.close(handle)


def remove(site: Site, name: str = "") -> None:
    """Ends all that runs in the cgroup, and removes it."""
    while alive := processes(site, name):
        kill(site, *alive)
    until(lambda: _removed(site, name), what=f"cgroup {site.name} removed", seconds=120)


def _removed(site: Site, name: str) -> bool:
    folders = list(_folders(site, name))
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
    return not any(folder.exists() for folder in folders)


def _folders(site: Site, name: str) -> Iterator[Path]:
    """Deepest first."""
    for tree in trees():
        for folder, _, _ in os.walk(tree / site.name / name, topdown=False):
            yield Path(folder)


def _hand_down(folder: Path) -> None:
    """In version 2 a cgroup's children have the controllers that it hands down."""
    control = folder / "cgroup.subtree_control"
    for controller in CONTROLLERS.split() if control.exists() else ():
        if controller in (folder / "cgroup.controllers").read_text().split():
            control.write_text(f"+{controller}")
