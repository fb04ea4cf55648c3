"""A node: a machine with containerd, a kubelet and kube-proxy, each configured as a real node has it.

The disk holds images and containers, and outlives a loss of power; the node's name and address do not
change.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

import grpc

from tests.cluster.kit import cgroups, network, seeds
from tests.cluster.kit.commands import until
from tests.cluster.kit.control_plane import ControlPlane
from tests.cluster.kit.machine import Machine
from tests.cluster.kit.requirements import CNI_PLUGINS
from tests.cluster.kit.site import DNS_SERVICE, Site

PAUSE = "pause:kit"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CONTAINERD = """version = 2
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{registry}/{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry.mirrors."{registry}"]
    endpoint = ["http://{registry}"]
  [plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
    endpoint = ["http://{registry}"]
"""


@dataclass(frozen=True, slots=True)
class Node:
    """The node with this index, one of `count`."""

    control_plane: ControlPlane
    index: int
    count: int

    @property
    def site(self) -> Site:
        """Of its cluster."""
        return self.control_plane.site

    @property
    def name(self) -> str:
        """Its name in the API."""
        return f"node-{self.index}"

    @property
    def machine(self) -> Machine:
        """Where its programs and pods run."""
        return Machine(self.site, self.name, self.control_plane.binaries["pause"])

    @property
    def sources(self) -> tuple[str, ...]:
        """All addresses from which it and its pods speak."""
        return (self.site.node_address(self.index), self.site.node_pods(self.index))

    def write_configuration(self, millicores: int | None) -> None:
        """Writes what its programs read; pods get `millicores` of the processors, or all."""
        folder = self.machine.folder
        (folder / "cni").mkdir(parents=True, exist_ok=True)
        (folder / "resolv.conf").touch()
        words = {"registry": self.site.registry, "pause": PAUSE, "plugins": CNI_PLUGINS, "folder": folder}
        (folder / "containerd.toml").write_text(CONTAINERD.format_map(words))
        self._write("cni/10-pods.conflist", self._pod_network())
        self._write("kubelet.json", self._kubelet(millicores))
        self._write("proxy.json", self._proxy())
        pki = self.control_plane.pki
        user = f"system:node:{self.name}"
        pki.kubeconfig(folder / "kubelet.kubeconfig", self.site, self.name, user=user, group="system:nodes")
        proxy = f"{self.name}-proxy"
        pki.kubeconfig(folder / "proxy.kubeconfig", self.site, proxy, user="system:kube-proxy")

    def boot(self) -> None:
        """Switches it on, up to containerd."""
        cgroups.make(self.site, self.name)
        seeds.plant_node(self.machine.folder / "var")
        self.machine.boot()
        network.plug_in(self.site, self.control_plane.machine, self.machine, self.index, self.count)
        self.machine.start("containerd", "containerd", "--config", self.machine.folder / "containerd.toml")

    def join(self) -> None:
        """Starts kubelet and kube-proxy, which need an API server to speak to."""
        until(self._containerd_answers, what=f"containerd of {self.name} answers", seconds=180)
        folder, binaries = self.machine.folder, self.control_plane.binaries
        self.machine.start(
            "kubelet",
            binaries["kubelet"],
            f"--config={folder / 'kubelet.json'}",
            f"--kubeconfig={folder / 'kubelet.kubeconfig'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.site.node_address(self.index)}",
        )
        self.machine.start("proxy", binaries["kube-proxy"], f"--config={folder / 'proxy.json'}")

    def power_off(self) -> None:
        """The node and all its pods are gone at once, without a word; its disk stays."""
        self.machine.power_off()
        cgroups.remove(self.site, self.name)

    def _containerd_answers(self) -> bool:
        """As it is asked by the kubelet, which ends if it comes too early; `ctr` is answered before that."""
        socket = f"unix:/proc/{self.machine.first_process}/root{CONTAINERD_SOCKET}"
        with grpc.insecure_channel(socket) as channel:
            try:
                channel.unary_unary("/runtime.v1.RuntimeService/Version")(b"", timeout=2)
            except grpc.RpcError:
                return False
        return True

    def _write(self, name: str, content: object) -> None:
        (self.machine.folder / name).write_text(json.dumps(content, indent=1))

    def _pod_network(self) -> dict[str, object]:
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": self.site.node_pods(self.index)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {
            "type": "bridge",
            "bridge": network.POD_BRIDGE,
            "isGateway": True,
            "hairpinMode": True,
            "ipam": addresses,
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}

    def _kubelet(self, millicores: int | None) -> dict[str, object]:
        reserved = 0 if millicores is None else max(0, 1000 * (os.cpu_count() or 1) - millicores)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.control_plane.pki.certificate("ca"))},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.site.name}/{self.name}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "volumePluginDir": str(self.machine.folder / "volume-plugins"),
            "clusterDNS": [DNS_SERVICE],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.machine.folder / "resolv.conf"),
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "serializeImagePulls": False,
            "enforceNodeAllocatable": [],
            "systemReserved": {"cpu": f"{reserved}m"},
            "nodeStatusUpdateFrequency": "2s",
            "nodeStatusReportFrequency": "5m",  # what has not changed; that the node lives its lease tells
            "nodeLeaseDurationSeconds": 12,  # renewed each fourth of that
        }

    def _proxy(self) -> dict[str, object]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.machine.folder / "proxy.kubeconfig")},
            "mode": "iptables",
            "clusterCIDR": self.site.pods,
            "conntrack": {"maxPerCore": 0, "min": 0},
            "hostnameOverride": self.name,
            "iptables": {"minSyncPeriod": "0s"},
            "oomScoreAdj": 0,
        }
