"""What one cluster on this machine is called and where it is: its number makes all its names and addresses.

Number 0 is the one of `make cluster`; each test session takes the first number from 1 on that nobody holds.
Everything that a cluster makes outside its state folder carries `Site.name`, so that taking it down needs
no record of what was started.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.errors import ElasticError

NUMBERS = range(10)
CONTROL_PLANE = "control-plane"
SERVICES = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"


@dataclass(frozen=True, slots=True)
class Site:
    """Names and addresses of the cluster with this number."""

    number: int

    @property
    def name(self) -> str:
        """The mark of all it makes outside its folder: its cgroup, and its link to this machine."""
        return f"elasticdl-kit{self.number}"

    @property
    def folder(self) -> Path:
        """State, logs and disks of the nodes."""
        return state_folder() / str(self.number)

    @property
    def logs(self) -> Path:
        """One file a program."""
        return self.folder / "logs"

    @property
    def kubeconfig(self) -> Path:
        """That of the cluster's administrator."""
        return self.folder / "admin.kubeconfig"

    @property
    def network(self) -> str:
        """All addresses but those of services."""
        return f"10.{200 + self.number}.0.0/16"

    @property
    def pods(self) -> str:
        """The upper half is for pods."""
        return f"10.{200 + self.number}.128.0/17"

    @property
    def control_plane(self) -> str:
        """Where API server, DNS and registry listen."""
        return f"10.{200 + self.number}.0.1"

    @property
    def outside(self) -> str:
        """The machine's own address in the cluster's network."""
        return f"10.{200 + self.number}.0.254"

    @property
    def server(self) -> str:
        """Of the API."""
        return f"https://{self.control_plane}:6443"

    @property
    def registry(self) -> str:
        """What an image's name begins with, here and in pods alike."""
        return f"{self.control_plane}:5000"

    def node_address(self, index: int) -> str:
        """Of the node itself."""
        return f"10.{200 + self.number}.0.{10 + index}"

    def node_pods(self, index: int) -> str:
        """Addresses of the pods on a node."""
        return f"10.{200 + self.number}.{128 + index}.0/24"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else brings this cluster up or down meanwhile; the death of the holder frees it."""
        state_folder().mkdir(parents=True, exist_ok=True)
        with (state_folder() / f"{self.number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SiteHeldError(f"cluster {self.number} is in the hands of another process") from None
            yield


class SiteHeldError(ElasticError):
    """Another process brings this cluster up or down, or tests on it."""


@contextmanager
def free_site() -> Iterator[Site]:
    """The first site, other than that of `make cluster`, which nobody holds; held until the end."""
    with ExitStack() as stack:
        for number in NUMBERS[1:]:
            try:
                stack.enter_context(Site(number).held())
            except SiteHeldError:
                continue
            yield Site(number)
            return
    raise ElasticError("every cluster this machine can have is in use")


def state_folder() -> Path:
    """Where clusters keep what they must know."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "elasticdl" / "cluster"
