"""The kit's command line, which `make cluster` and the like call."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence

from elastic_runtime.errors import ElasticError
from tests.cluster.kit import faults, kfp, kfp_images, kit
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.site import Site


def main(words: Sequence[str] | None = None) -> int:
    """Does what it is told, and says what a user did wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.kit", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="install and build what a cluster needs")
    prepare.add_argument("--kfp", action="store_true", help="and what Kubeflow Pipelines need")
    up = commands.add_parser("up", help="bring up a cluster, in place of one that is there")
    up.add_argument("--nodes", type=int, default=3)
    up.add_argument(
        "--millicores", type=int, help="of the processors, for the pods of each node (default: all)"
    )
    up.add_argument("--kfp", action="store_true", help="with Kubeflow Pipelines")
    commands.add_parser("down", help="leave nothing of any cluster of the kit that is not under test")
    commands.add_parser("images", help="build what steps of pipelines run in, and push it there")
    commands.add_parser("env", help="print what a shell should eval")
    commands.add_parser("lose", help="take a node's power away").add_argument("node")
    commands.add_parser("back", help="boot it again").add_argument("node")
    told = parser.parse_args(words)
    try:
        return _do(told)
    except ElasticError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return error.exit_code


def _do(told: argparse.Namespace) -> int:
    site = Site(0)
    match told.command:
        case "prepare":
            _prepare(with_kfp=told.kfp)
        case "up":
            _up(site, told.nodes, told.millicores, with_kfp=told.kfp)
        case "down":
            return _down()
        case "images":
            _push(Cluster.opened(site))
        case "env":
            _env(Cluster.opened(site))
        case "lose":
            Cluster.opened(site).node(told.node).power_off()
        case "back":
            faults.bring_back(Cluster.opened(site), told.node)
    return 0


def _prepare(*, with_kfp: bool) -> None:
    kit.prepare()
    if with_kfp:
        kfp.prepare()


def _up(site: Site, nodes: int, millicores: int | None, *, with_kfp: bool) -> None:
    _prepare(with_kfp=with_kfp)
    began = time.monotonic()
    with site.held():
        cluster = kit.up(site, nodes=nodes, millicores=millicores)
        kit.say(f"{nodes} nodes Ready after {time.monotonic() - began:.1f} s")
        if with_kfp:
            began = time.monotonic()
            kfp.started(cluster)
            kit.say(f"Kubeflow Pipelines ready after {time.monotonic() - began:.1f} s more")
    kit.say('eval "$(make -s cluster-env)" gives this shell kubectl; make cluster-down ends it')
    kit.say("make cluster-images pushes what steps of pipelines run in")


def _push(cluster: Cluster) -> None:
    began = time.monotonic()
    name = kfp_images.elasticdl(cluster)
    kit.say(f"nodes find {name} in {cluster.site.registry} after {time.monotonic() - began:.0f} s")


def _env(cluster: Cluster) -> None:
    folder, kubeconfig = (shlex.quote(str(path)) for path in (cluster.binaries.folder, cluster.kubeconfig))
    print(f'export KUBECONFIG={kubeconfig} PATH={folder}:"$PATH"')
    print(f"export ELASTICDL_REGISTRY={cluster.site.registry}")
    print(f'export NO_PROXY="${{NO_PROXY:+$NO_PROXY,}}{cluster.site.network}"')


def _down() -> int:
    in_use = kit.down_all()
    for site in in_use:
        kit.say(f"cluster {site.number} is in the hands of another process, and stays")
    return 1 if in_use else 0


if __name__ == "__main__":
    sys.exit(main())
