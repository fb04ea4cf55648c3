"""The wires between machines: a bridge in the control plane's network, and from it one link to each machine.

One more link leads to this machine, so that a shell and tests reach the API, the registry and pods. All but
that link are inside network namespaces and end with them. Nothing leads further: pods do not reach the
world.
"""

from __future__ import annotations

from contextlib import suppress

from elastic_runtime.errors import ElasticError
from tests.cluster.kit.commands import run
from tests.cluster.kit.machine import Machine
from tests.cluster.kit.site import Site

BRIDGE = "nodes"
POD_BRIDGE = "pods"


def make_hub(site: Site, hub: Machine, nodes: int) -> None:
    """Gives the control plane the bridge, the link to this machine, and routes to all pods."""
    bridge = [
        f"link add {BRIDGE} address 02:00:00:00:00:01 type bridge",
        f"addr add {site.control_plane}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ]
    pods = [f"route add {site.node_pods(node)} via {site.node_address(node)}" for node in range(nodes)]
    _ip(hub, *bridge, *pods)
    remove_outside(site)
    run("ip", "link", "add", site.name, "type", "veth", "peer", "name", "outside", "netns", hub.first_process)
    run("ip", "addr", "add", f"{site.outside}/24", "dev", site.name)
    run("ip", "link", "set", site.name, "up")
    run("ip", "route", "add", site.pods, "via", site.control_plane)
    _ip(hub, f"link set outside master {BRIDGE} up")


def plug_in(site: Site, hub: Machine, node: Machine, index: int, nodes: int) -> None:
    """Connects a node that has just booted."""
    with suppress(ElasticError):  # what is left of the link for a moment after a power cut
        _ip(hub, f"link del {node.name}")
    hub.run_in_network(
        "ip", "link", "add", node.name, "type", "veth", "peer", "name", "eth0", "netns", node.first_process
    )
    _ip(hub, f"link set {node.name} master {BRIDGE} up")
    others = [other for other in range(nodes) if other != index]
    _ip(
        node,
        f"link add {POD_BRIDGE} address 02:00:00:00:00:02 type bridge",
        f"link set {POD_BRIDGE} up",
        f"link set eth0 address 02:00:00:00:01:{index:02x}",
        f"addr add {site.node_address(index)}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {site.control_plane}",
        *(f"route add {site.node_pods(other)} via {site.node_address(other)}" for other in others),
    )


def remove_outside(site: Site) -> None:
    """Takes away the one link that this machine sees."""
    run("ip", "link", "del", site.name, check=False)


def drop(machine: Machine, sources: tuple[str, ...]) -> None:
    """From now on the machine hears nothing from these addresses, nor do its pods."""
    for source in sources:
        machine.run("iptables", "-w", "-t", "raw", "-I", "PREROUTING", "-s", source, "-j", "DROP")


def hear(machine: Machine, sources: tuple[str, ...]) -> None:
    """The end of `drop`."""
    for source in sources:
        machine.run("iptables", "-w", "-t", "raw", "-D", "PREROUTING", "-s", source, "-j", "DROP")


def _ip(machine: Machine, *commands: str) -> None:
    machine.run_in_network("ip", "-batch", "-", given="\n".join(commands))
