"""What a job ran on: versions of the packages that matter, without importing them, and the machine's size."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

_PACKAGES = (
    "elasticdl",
    "tensorflow",
    "tensorflow-cpu",
    "keras",
    "horovod",
    "numpy",
    "numba",
    "grpcio",
    "protobuf",
)
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@cache
def versions() -> Mapping[str, str]:
    """Python's version and those of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def facts() -> Mapping[str, str | int]:
    """Cores and bytes of memory this process may use, and the system."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _memory() -> int:
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such limit here, or "max"
            continue
    return min(limits)
