"""The machine of etcd, the API server, controllers, scheduler, DNS, the registry and Argo's controller.

None of them is a pod: so no fault of a node ever takes one of them along, and a test chooses what fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.kit import network, seeds
from tests.cluster.kit.binaries import Binaries
from tests.cluster.kit.certificates import Authority
from tests.cluster.kit.commands import run, until
from tests.cluster.kit.machine import Machine
from tests.cluster.kit.site import CONTROL_PLANE, DNS_SERVICE, FIRST_SERVICE, SERVICES, Site

EXECUTOR = "argoexec:kit"
URGENT = "kit-urgent"  # the priority class of pods that make others go
LOST_AFTER_SECONDS = 20  # without a sign of life a node is NotReady; busy disks have held one up for 15
MOVED_AFTER_SECONDS = 5  # and so long after that its pods are deleted


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The programs that make nodes into a cluster."""

    site: Site
    binaries: Binaries

    @property
    def machine(self) -> Machine:
        """Where they run."""
        return Machine(self.site, CONTROL_PLANE, self.binaries["pause"])

    @property
    def pki(self) -> Authority:
        """The cluster's certificates."""
        return Authority(self.site.folder / "pki")

    def boot(self, nodes: int) -> None:
        """Starts the machine, its network, and what needs no API: etcd, the API server, the registry."""
        Authority.found(self.pki.folder)
        self.machine.boot()
        network.make_hub(self.site, self.machine, nodes)
        self._start_etcd()
        self._issue_certificates()
        self.start_api_server()
        self._start_registry()

    def start_api_server(self) -> None:
        """Starts the API server, for the first time or again; it is not ready yet."""
        pki = self.pki
        self.machine.start(
            "apiserver",
            self.binaries["kube-apiserver"],
            "--etcd-servers=http://127.0.0.1:2379",
            f"--bind-address={self.site.control_plane}",
            f"--advertise-address={self.site.control_plane}",
            f"--client-ca-file={pki.certificate('ca')}",
            f"--tls-cert-file={pki.certificate('apiserver')}",
            f"--tls-private-key-file={pki.key('apiserver')}",
            f"--service-account-key-file={pki.folder / 'accounts.pub'}",
            f"--service-account-signing-key-file={pki.key('accounts')}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={pki.certificate('apiserver-to-kubelet')}",
            f"--kubelet-client-key={pki.key('apiserver-to-kubelet')}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--default-not-ready-toleration-seconds={MOVED_AFTER_SECONDS}",
            f"--default-unreachable-toleration-seconds={MOVED_AFTER_SECONDS}",
            "--allow-privileged=true",
        )

    def stop_api_server(self) -> None:
        """Ends the API server with no warning: connections break, new ones are refused."""
        self.machine.kill("apiserver")

    def wait_for_api(self) -> None:
        """Returns when the API server says it is ready."""
        until(self.answers, what="the API server is ready", seconds=180)

    def answers(self) -> bool:
        """Whether the API server is ready now."""
        asked = ("--kubeconfig", self.site.kubeconfig, "--request-timeout=5s", "get", "--raw", "/readyz")
        return run(self.binaries["kubectl"], *asked, check=False) == "ok"

    def start_controllers(self) -> None:
        """Starts what needs the API: controllers, scheduler and DNS."""
        self.start_controller_manager()
        self.machine.start(
            "scheduler",
            self.binaries["kube-scheduler"],
            f"--kubeconfig={self._kubeconfig('scheduler', user='system:kube-scheduler')}",
            "--leader-elect=false",
        )
        dns = self._kubeconfig("dns", user="kit:dns")
        (self.site.folder / "Corefile").write_text(
            f"cluster.local:53 {{\n bind {self.site.control_plane}\n errors\n cache 1\n"
            f" kubernetes cluster.local {{\n  kubeconfig {dns}\n }}\n}}\n"
        )
        self.machine.start("dns", self.binaries["coredns"], "-conf", self.site.folder / "Corefile")

    def start_controller_manager(self) -> None:
        """Starts what takes nodes for lost, among other things."""
        pki = self.pki
        self.machine.start(
            "controllers",
            self.binaries["kube-controller-manager"],
            f"--kubeconfig={self._kubeconfig('controllers', user='system:kube-controller-manager')}",
            f"--service-account-private-key-file={pki.key('accounts')}",
            f"--root-ca-file={pki.certificate('ca')}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            f"--node-monitor-grace-period={LOST_AFTER_SECONDS}s",
            "--node-monitor-period=1s",
            "--node-eviction-rate=10",
        )

    def stop_controller_manager(self) -> None:
        """Ends it with no warning."""
        self.machine.kill("controllers")

    def start_argo(self) -> None:
        """Starts Argo's controller, as the service account its manifests give rights to."""
        account = "system:serviceaccount:argo:argo"
        self.machine.start(
            "argo",
            self.binaries["workflow-controller"],
            f"--kubeconfig={self._kubeconfig('argo', user=account, namespace='argo')}",
            f"--executor-image={self.site.registry}/{EXECUTOR}",
            "--executor-image-pull-policy=IfNotPresent",
            env={"LEADER_ELECTION_DISABLE": "true", "DEFAULT_REQUEUE_TIME": "10ms"},
        )

    def restart_argo(self) -> None:
        """Ends Argo's controller and starts it again: one that has lost the API spins and works no more."""
        self.machine.kill("argo")
        self.start_argo()

    def own_objects(self) -> list[dict[str, Any]]:
        """What the API must know for names to resolve, for Argo to have a place, and for faults."""
        named_dns = {"name": "kube-dns", "namespace": "kube-system"}
        ports = [
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        ]
        rules = [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ]
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argo"}},
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": URGENT},
                "value": 1_000_000,
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": named_dns,
                "spec": {"clusterIP": DNS_SERVICE, "ports": ports},
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {**named_dns, "labels": {"kubernetes.io/service-name": "kube-dns"}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [self.site.control_plane], "conditions": {"ready": True}}],
                "ports": ports,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "kit:dns"},
                "rules": rules,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "kit:dns"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "kit:dns",
                },
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "kit:dns"}],
            },
        ]

    def _issue_certificates(self) -> None:
        names = [
            f"DNS:kubernetes{end}" for end in ("", ".default", ".default.svc", ".default.svc.cluster.local")
        ]
        addresses = [f"IP:{address}" for address in (FIRST_SERVICE, self.site.control_plane)]
        self.pki.issue("apiserver", user="kube-apiserver", serves=(*names, *addresses))
        self.pki.issue("apiserver-to-kubelet", user="kube-apiserver-kubelet-client", group="system:masters")
        self.pki.kubeconfig(self.site.kubeconfig, self.site, "admin", user="admin", group="system:masters")

    def _start_etcd(self) -> None:
        clients = "http://127.0.0.1:2379"
        self.machine.start(
            "etcd",
            self.binaries["etcd"],
            f"--data-dir={self.machine.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            "--listen-peer-urls=http://127.0.0.1:2380",
        )

    def _start_registry(self) -> None:
        config = {
            "version": "0.1",
            "log": {"level": "warn"},
            "storage": {
                "filesystem": {"rootdirectory": str(self.machine.folder / "registry")},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.site.registry},
        }
        seeds.plant_registry(self.machine.folder / "registry")
        path = self.site.folder / "registry.json"
        path.write_text(json.dumps(config))
        self.machine.start("registry", "docker-registry", "serve", path)

    def _kubeconfig(self, name: str, *, user: str, namespace: str = "") -> Path:
        path = self.site.folder / f"{name}.kubeconfig"
        return self.pki.kubeconfig(path, self.site, name, user=user, namespace=namespace)
