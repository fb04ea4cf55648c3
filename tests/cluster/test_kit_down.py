"""Taking a cluster down leaves nothing on the machine, whatever has crashed before.

What there is is listed by other means than those the kit itself goes by: all of the machine's processes and
their namespaces, mounts, links, routes, packet filter rules, kernel settings, and folders of the cgroup
trees.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cluster.kit import __main__ as commands
from tests.cluster.kit import builder, cgroups, kit
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster
from tests.cluster.kit.commands import run, until
from tests.cluster.kit.control_plane import ControlPlane
from tests.cluster.kit.objects import pod
from tests.cluster.kit.site import CONTROL_PLANE, NUMBERS, Site, free_site

pytestmark = pytest.mark.timeout(1200)  # each wait has its own, shorter limit
OTHERS_MOUNTS = ("/pytest-of-", "/elasticdl/images/")  # small disks of tests that run now; images being built
NAMESPACES = ("net", "mnt", "pid", "uts")
SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "net/ipv4/ip_forward")


def traces(site: Site) -> dict[str, set[str]]:
    """Everything on the machine that the cluster could have made, and much besides."""
    others = tuple(f"elasticdl-kit{number}" for number in range(10) if number != site.number)
    seen: dict[str, set[str]] = {"processes": set(), "namespaces": set()}
    own, foreign = _namespaces(Path("/proc/self")), set[str]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                " Z " in (process / "stat").read_text()
            ):  # has ended; only its parent, the first of all, can reap it
                continue
            if any(f"/{other}/" in (process / "cgroup").read_text() for other in others):
                foreign |= _namespaces(process)
                continue
            if _is_of_a_build(process):
                continue
            named = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if os.fsencode(site.folder) in named:
                seen["processes"].add(process.name)
            seen["namespaces"] |= _namespaces(process)
    seen["namespaces"] -= foreign - own  # whoever boots another cluster's node is for a moment in its network
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    seen["mounts"] = {line for line in mounts if not _of(OTHERS_MOUNTS, line)}
    seen["links"] = set(os.listdir("/sys/class/net"))
    seen["routes"] = set(run("ip", "route", "show", "table", "all").splitlines())
    seen["filters"] = {line for line in run("iptables-save").splitlines() if not line.startswith("#")}
    seen["settings"] = {f"{name} {Path('/proc/sys', name).read_text()}" for name in SETTINGS}
    seen["cgroups"] = {
        folder for tree in cgroups.trees() for folder, _, _ in os.walk(tree) if site.name in folder
    }
    seen["state"] = {str(site.folder)} if site.folder.exists() else set()
    return {kind: {each for each in found if not _of(others, each)} for kind, found in seen.items()}


def left(before: dict[str, set[str]], site: Site) -> dict[str, set[str]]:
    """What is there now and was not before."""
    found = {kind: seen - before[kind] for kind, seen in traces(site).items()}
    return {kind: more for kind, more in found.items() if more}


def up_with_a_pod(site: Site) -> Cluster:
    cluster = kit.up(site, nodes=1)
    cluster.apply(pod("there", cluster.image("busybox"), "sleep", "600"))
    cluster.wait("--for=jsonpath={.status.phase}=Running", "pod/there")
    return cluster


class Held(Site):
    """One that this process holds already."""

    @contextmanager
    def held(self) -> Iterator[None]:
        yield


def test_the_command_down_leaves_nothing_of_what_up_has_made_but_what_somebody_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with free_site() as site:
        monkeypatch.setattr(kit, "NUMBERS", [site.number])  # others' clusters are not ours to take down
        monkeypatch.setattr(commands, "Site", lambda _: Held(site.number))
        before = traces(site)
        try:
            assert commands.main(["up", "--nodes=1"]) == 0
            assert commands.main(["env"]) == 0
            words = f"{capsys.readouterr().out}\nkubectl get nodes --output=name"
            assert subprocess.check_output(["sh", "-ec", words], text=True) == "node/node-0\n"
            there = left(before, site)
            assert there.keys() >= {"processes", "namespaces", "links", "routes", "cgroups", "state"}
            assert there.keys().isdisjoint({"mounts", "filters", "settings"})
            assert commands.main(["down"]) == 1
            assert f"cluster {site.number} is in the hands of another" in capsys.readouterr().err
            assert left(before, site).keys() == there.keys()
        except BaseException:
            kit.down(site)
            raise
    assert commands.main(["down"]) == 0
    assert left(before, site) == {}


def test_down_leaves_nothing_after_every_program_was_killed(site: Site) -> None:
    before = traces(site)
    cluster = up_with_a_pod(site)
    spared = {cluster.machine(name)[0].first_process for name in (CONTROL_PLANE, "node-0")}
    for pid in cgroups.processes(site, "programs") - spared:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert "namespaces" in left(before, site)
    kit.down(site)
    assert left(before, site) == {}


def test_down_leaves_nothing_after_the_kit_was_killed_on_its_way_up(site: Site) -> None:
    before = traces(site)
    code = f"from tests.cluster.kit import kit, site; kit.up(site.Site({site.number}), nodes=1)"
    coming = subprocess.Popen([sys.executable, "-c", code])
    plane = ControlPlane(site, kit.prepare())
    booted = lambda: plane.machine.first_process is not None  # noqa: E731
    until(booted, what="the control plane boots", seconds=PATIENCE_SECONDS)
    coming.kill()
    coming.wait()
    assert "namespaces" in left(before, site)
    kit.down(site)
    assert left(before, site) == {}


def test_down_where_nothing_is_up_is_fine(site: Site) -> None:
    kit.down(site)
    kit.down(site)


def test_what_is_there_of_an_image_that_somebody_builds_is_not_taken_for_the_clusters() -> None:
    nobody = Site(len(NUMBERS))
    before = traces(nobody)
    words = ["sh", "-c", "env -i unshare --mount --uts sh -c 'echo there; sleep 600' & wait"]
    with subprocess.Popen(
        words, env=builder.environment(), stdout=subprocess.PIPE, start_new_session=True
    ) as step:
        assert step.stdout is not None
        try:
            assert step.stdout.readline() == b"there\n"
            assert left(before, nobody) == {}
        finally:
            os.killpg(step.pid, signal.SIGKILL)


def _namespaces(process: Path) -> set[str]:
    return {os.readlink(process / "ns" / kind) for kind in NAMESPACES}


def _is_of_a_build(process: Path) -> bool:
    """Whether an image is being built by it, or by whoever has started it.

    What a build runs has namespaces of its own, and nothing of the builder's environment.
    """
    mark = os.fsencode(f"CONTAINERS_STORAGE_CONF={builder.environment()['CONTAINERS_STORAGE_CONF']}")
    while process.name not in {"0", "1"}:
        if mark in (process / "environ").read_bytes().split(b"\0"):
            return True
        _, _, after_its_name = (process / "stat").read_text().rpartition(")")
        process = process.with_name(after_its_name.split()[1])
    return False


def _of(names: tuple[str, ...], text: str) -> bool:
    return any(name in text for name in names)
