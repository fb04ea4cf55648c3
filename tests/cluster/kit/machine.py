"""A machine of the cluster: a network, a process tree, mounts and a name of its own, on this kernel.

The first process in it is `pause`; when that ends, the kernel ends all others of the machine and takes its
network and mounts away, as a power cut does. A machine keeps its disk, which is its `/var`; `/run` is new
at each start. What runs in it can be seen, but not what runs outside. Its mounts are seen by nobody else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.errors import ElasticError
from tests.cluster.kit import cgroups
from tests.cluster.kit.commands import PLAIN_ENVIRONMENT, run
from tests.cluster.kit.site import Site

PROGRAMS = "programs"
# A kubelet sets these for the whole kernel; here it may set copies.
KUBELETS_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
FURNISH = """set -eu
hostname "$1"; disk=$2; shift 2
mount --make-rprivate / && mount --make-rshared /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p "$disk/lib" "$disk/log" "$disk/tmp"
ln -sfn /run "$disk/run"
for setting in "$@"; do
  mkdir -p "/run/settings/${setting%/*}"
  cat "/proc/sys/$setting" >"/run/settings/$setting"
  mount --bind "/run/settings/$setting" "/proc/sys/$setting"
done
mount --bind "$disk" /var
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
"""
SPARING = {"GOGC": "400"}  # there is more memory than processors, and nearly all programs are Go's
START = 'log=$1 id=$2; shift 2; setsid "$@" </dev/null >>"$log" 2>&1 & echo $! >"/run/$id.pid"'


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a site, running or not."""

    site: Site
    name: str
    pause: Path

    @property
    def folder(self) -> Path:
        """Files of the kit about this machine."""
        return self.site.folder / self.name

    @property
    def first_process(self) -> int | None:
        """The process whose end is the machine's, as this kernel numbers it; None: the machine is off."""
        with suppress(OSError, ValueError):
            pid = int((self.folder / "first-process").read_text())
            return pid if cgroups.holds(self.site, pid) else None
        return None

    def boot(self) -> None:
        """Switches it on; nothing runs there yet."""
        if self.first_process is not None:
            raise ElasticError(f"{self.name} is on already", where=self.site.name)
        disk = self.folder / "var"
        disk.mkdir(parents=True, exist_ok=True)
        cgroups.make(self.site, PROGRAMS)
        pid = run(*cgroups.joining(self.site, PROGRAMS, self.pause, "machine"))
        (self.folder / "first-process").write_text(pid)
        self.run("sh", "-c", FURNISH, "sh", self.name, disk, *KUBELETS_SETTINGS)

    def power_off(self) -> None:
        """Everything in it stops between two instructions; the network falls silent before."""
        if self.first_process is not None:
            self.run("sh", "-c", "ip link show eth0 >/dev/null 2>&1 && ip link set eth0 down || true")
            cgroups.kill(self.site, self.first_process)
            (self.folder / "first-process").unlink()

    def run(self, *command: object, given: str = "", check: bool = True) -> str:
        """Runs a command inside, and returns what it printed."""
        return run(*self._entered(*command), given=given, check=check)

    def run_in_network(self, *command: object, given: str = "") -> str:
        """Runs a command in its network only: process ids in it are those of this kernel."""
        return run("nsenter", f"--net=/proc/{self._running()}/ns/net", *command, given=given)

    def start(self, name: str, *command: object, env: Mapping[str, str] | None = None) -> None:
        """Starts a program inside, whose parent is the machine; what it prints is appended to its log."""
        self.site.logs.mkdir(exist_ok=True)
        log = self.site.logs / f"{self.name}.{name}.log"
        run(
            *self._entered("sh", "-c", START, "sh", log, name, *command),
            env=PLAIN_ENVIRONMENT | SPARING | dict(env or {}),
        )

    def kill(self, name: str) -> None:
        """Ends a program that was started here, with no warning, and returns when it has ended."""
        first = self._running()
        number_inside = self.run("cat", f"/run/{name}.pid").strip()
        tree = os.readlink(f"/proc/{first}/ns/pid")
        for pid in cgroups.processes(self.site, PROGRAMS):
            with suppress(OSError):
                numbers = re.findall(
                    r"^NSpid:.*\s(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
                )
                if numbers == [number_inside] and os.readlink(f"/proc/{pid}/ns/pid") == tree:
                    cgroups.kill(self.site, pid)

    def _entered(self, *command: object) -> list[str]:
        entering = ("nsenter", "--target", self._running(), "--net", "--mount", "--pid", "--uts", "--")
        return cgroups.joining(self.site, PROGRAMS, *entering, *command)

    def _running(self) -> int:
        pid = self.first_process
        if pid is None:
            raise ElasticError(f"{self.name} is off", where=self.site.name)
        return pid
