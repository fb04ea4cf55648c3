"""What a machine must be and have for a cluster, and how it gets the programs that Debian has.

`why_not` is one line that a skipped test can show. `install` says what it installs and asks nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from elastic_runtime.errors import ElasticError
from tests.cluster.kit import cgroups
from tests.cluster.kit.binaries import cache_folder
from tests.cluster.kit.commands import PLAIN_ENVIRONMENT, run
from tests.cluster.kit.site import state_folder

CNI_PLUGINS = Path("/usr/lib/cni")
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": str(CNI_PLUGINS / "bridge"),
    "docker-registry": "docker-registry",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "iproute2": "ip",
    "util-linux": "nsenter",
    "mount": "mount",
    "openssl": "openssl",
    "ca-certificates": "update-ca-certificates",
}
OLDEST_GO = (1, 25)
NO_SERVICES = Path("/usr/sbin/policy-rc.d")


def why_not() -> str:
    """What this machine lacks, in a few words; empty if it can have a cluster."""
    if not sys.platform.startswith("linux"):
        return f"needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "needs root, for namespaces and mounts"
    if _go_version() < OLDEST_GO:
        return f"needs Go {'.'.join(map(str, OLDEST_GO))} or newer in PATH, to build Kubernetes"
    if not cgroups.trees():
        return "needs cgroups, and none are mounted"
    if hidden := [str(folder) for folder in (state_folder(), cache_folder()) if _is_hidden(folder)]:
        return f"needs {' and '.join(hidden)} elsewhere: nodes have a /var and a /run of their own"
    if missing() and not found("apt-get"):
        return f"needs {', '.join(missing())}, and there is no apt-get"
    return ""


def install(packages: Mapping[str, str] = PACKAGES) -> None:
    """Installs what is missing; of several test sessions at a time, one after the other."""
    if not missing(packages):
        return
    state_folder().mkdir(parents=True, exist_ok=True)
    with (state_folder() / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if names := missing(packages):
            _install(names, packages)


def missing(packages: Mapping[str, str] = PACKAGES) -> list[str]:
    """Those of the packages whose program or file is not there."""
    return [package for package, program in packages.items() if not found(program)]


def found(program: str) -> str | None:
    """Where a program is, or the file of that path; None if it is not there."""
    if os.path.isabs(program):
        return program if os.path.isfile(program) else None
    return shutil.which(program, path=PLAIN_ENVIRONMENT["PATH"])


def _install(names: list[str], packages: Mapping[str, str]) -> None:
    print(f"tests: installing {', '.join(names)} with apt-get", file=sys.stderr, flush=True)
    env = PLAIN_ENVIRONMENT | {
        name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")
    }
    env["DEBIAN_FRONTEND"] = "noninteractive"
    with nullcontext() if NO_SERVICES.exists() else _services_stay_down():
        run("apt-get", "update", "-qq", env=env)
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *names, env=env)
    if still := missing(packages):
        raise ElasticError(f"apt-get installed {', '.join(still)}, and yet the programs are not there")


def _go_version() -> tuple[int, ...]:
    said = run("go", "env", "GOVERSION") if found("go") else ""
    return tuple(int(number) for number in re.findall(r"\d+", said)[:2])


def _is_hidden(folder: Path) -> bool:
    return any(folder.resolve().is_relative_to(own) for own in ("/var", "/run"))


@contextmanager
def _services_stay_down() -> Iterator[None]:
    """Debian starts the services of a package that it installs, unless this file says no."""
    NO_SERVICES.write_text("#!/bin/sh\nexit 101\n")
    NO_SERVICES.chmod(0o755)
    try:
        yield
    finally:
        NO_SERVICES.unlink()
