"""Bringing a cluster up and taking it down.

Down asks nobody what was started: it ends what is in the cluster's cgroup, takes away the one link the
machine sees, and removes the state folder. So it works after any crash, of the cluster's programs or of the
kit.
"""

from __future__ import annotations

import shutil
import sys
import time

from elastic_runtime.errors import ElasticError, InputError
from tests import took
from tests.cluster.kit import binaries, cgroups, network, requirements
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.control_plane import EXECUTOR
from tests.cluster.kit.images import Image, push
from tests.cluster.kit.node import PAUSE
from tests.cluster.kit.site import NUMBERS, Site, SiteHeldError

SHELL_COMMANDS = (
    "sh cat cp date dd echo env false grep head hostname httpd id kill "
    "ls mkdir nc nslookup ps rm seq sleep tail timeout touch true wget"
)
ENOUGH_NODES = 64


def say(line: str) -> None:
    """Tells whoever waits."""
    print(f"cluster: {line}", file=sys.stderr, flush=True)


def prepare() -> binaries.Binaries:
    """Installs and builds what a cluster needs; the second time there is nothing to do."""
    if reason := requirements.why_not():
        raise InputError(f"this machine cannot have a cluster: {reason}")
    requirements.install()
    began, said = time.monotonic(), list[str]()

    def told(line: str) -> None:
        said.append(line)
        say(line)

    built = binaries.build(told)
    if said:
        took.note("programs of the cluster, built once", time.monotonic() - began)
    return built


def up(site: Site, *, nodes: int, millicores: int | None = None) -> Cluster:
    """Brings up a new cluster at a site, which the caller holds; one that was there is taken down."""
    if not 1 <= nodes <= ENOUGH_NODES:
        raise InputError(f"{nodes} nodes", where="NODES", remedy=f"between 1 and {ENOUGH_NODES}")
    cluster = Cluster(site, prepare(), nodes)
    down(site)
    site.folder.mkdir(parents=True)
    try:
        _bring_up(cluster, millicores)
    except BaseException as failure:
        logs = site.folder.with_name(f"{site.number}.logs-of-failed-start")
        shutil.rmtree(logs, ignore_errors=True)
        if site.logs.exists():
            site.logs.rename(logs)
        down(site)
        if isinstance(failure, ElasticError):
            raise ElasticError(
                f"{failure}", where="cluster did not start", remedy=f"logs: {logs}"
            ) from failure
        raise
    return cluster


def down(site: Site) -> None:
    """Leaves nothing of a cluster, whatever state it is in; the caller holds the site."""
    cgroups.remove(site)
    network.remove_outside(site)
    shutil.rmtree(site.folder, ignore_errors=True)
    if site.folder.exists():
        raise ElasticError("could not remove the state of the cluster", where=str(site.folder))


def down_all() -> list[Site]:
    """Takes down every cluster of the kit that nobody holds; returns those that somebody does."""
    in_use = []
    for site in map(Site, NUMBERS):
        try:
            with site.held():
                down(site)
        except SiteHeldError:
            in_use.append(site)
    return in_use


def _bring_up(cluster: Cluster, millicores: int | None) -> None:
    plane, nodes = cluster.control_plane, cluster.nodes
    plane.boot(cluster.count)
    for node in nodes:
        node.write_configuration(millicores)
        node.boot()
    _push_images(cluster)
    plane.wait_for_api()
    plane.start_controllers()
    for node in nodes:
        node.join()
    cluster.apply(*plane.own_objects())
    cluster.kubectl("apply", "--server-side", "-f", cluster.binaries.argo_manifests)
    plane.start_argo()
    cluster.keep()
    cluster.wait_for_nodes()
    cluster.wait("--for=create", "serviceaccount/default")


def _push_images(cluster: Cluster) -> None:
    built, registry = cluster.binaries, cluster.site.registry
    push(Image({"/pause": built["pause"]}, entrypoint=("/pause",)), f"{registry}/{PAUSE}")
    push(Image({"/bin/argoexec": built["argoexec"]}, entrypoint=("argoexec",)), f"{registry}/{EXECUTOR}")
    shell = {f"/bin/{command}": "busybox" for command in SHELL_COMMANDS.split()}
    users = {"/etc/passwd": "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"}
    busybox = Image({"/bin/busybox": built["busybox"]}, links=shell, texts=users, entrypoint=("sh",))
    push(busybox, cluster.image("busybox"))
