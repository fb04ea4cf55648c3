"""A running cluster, as tests and faults see it: its nodes, its control plane, and `kubectl`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from elastic_runtime.errors import ElasticError, InputError, nearest
from tests.cluster.kit.asking import Answers, Question, StoodStillError
from tests.cluster.kit.binaries import Binaries
from tests.cluster.kit.commands import LOOK_EVERY_SECONDS, run, until
from tests.cluster.kit.control_plane import ControlPlane
from tests.cluster.kit.machine import Machine
from tests.cluster.kit.node import Node
from tests.cluster.kit.site import CONTROL_PLANE, Site

PATIENCE_SECONDS = 180.0
"""How long anything that takes seconds is waited for, on a machine that has much else to do."""
STOOD_STILL = ("TLS handshake timeout", "etcdserver: request timed out")
"""What `kubectl` says after seconds without an answer from an API server that is there."""
Answer = TypeVar("Answer")
LOST_TAINTS = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """All of it can be told from its site, so any process may open it again."""

    site: Site
    binaries: Binaries
    count: int

    @classmethod
    def opened(cls, site: Site) -> Cluster:
        """The cluster that was brought up here."""
        try:
            kept = json.loads((site.folder / "cluster.json").read_text())
        except FileNotFoundError:
            raise InputError(f"there is no cluster {site.number}", remedy="make cluster") from None
        return cls(site, Binaries(Path(kept["binaries"])), kept["nodes"])

    def keep(self) -> None:
        """Writes down what `opened` reads."""
        kept = {"nodes": self.count, "binaries": str(self.binaries.folder)}
        (self.site.folder / "cluster.json").write_text(json.dumps(kept))

    @property
    def control_plane(self) -> ControlPlane:
        """API server and the like."""
        return ControlPlane(self.site, self.binaries)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """In order of their index."""
        return tuple(Node(self.control_plane, index, self.count) for index in range(self.count))

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator."""
        return self.site.kubeconfig

    def node(self, name: str) -> Node:
        """The node of this name."""
        named = {node.name: node for node in self.nodes}
        if name not in named:
            raise InputError(f"no node is called {name!r}", where="cluster", remedy=nearest(name, named))
        return named[name]

    def machine(self, name: str) -> tuple[Machine, tuple[str, ...]]:
        """The machine of a node or the control plane, and the addresses it and its pods speak from."""
        if name == CONTROL_PLANE:
            return self.control_plane.machine, (self.site.control_plane,)
        return self.node(name).machine, self.node(name).sources

    def image(self, name: str) -> str:
        """The full name of an image of the kit, `busybox` for one."""
        return f"{self.site.registry}/{name}:kit"

    def kubectl(self, *arguments: object, given: str = "", check: bool = True) -> str:
        """Runs `kubectl` as the administrator, and returns what it printed."""
        own = (f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.site.folder / 'kubectl'}")
        return run(self.binaries["kubectl"], *own, *arguments, given=given, check=check)

    @property
    def answers(self) -> Answers:
        """What the API server says to the administrator."""
        return Answers(self.site.server, self.control_plane.pki)

    def get(self, *arguments: object) -> Any:
        """`kubectl get` of these, as objects; asked again where the machine stood still meanwhile."""
        words = tuple(map(str, arguments))
        if question := Question.of(words):
            return self.again(partial(self.answers.get, question))
        return json.loads(self.again(partial(self.kubectl, "get", "--output=json", *words)))

    def again(self, ask: Callable[[], Answer]) -> Answer:
        """What this returns, which may be done twice; done again where the machine stood still meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return ask()
            except ElasticError as problem:
                stood_still = any(sign in problem.what for sign in STOOD_STILL)
                if not (stood_still or isinstance(problem, StoodStillError)) or time.monotonic() > deadline:
                    raise
            time.sleep(LOOK_EVERY_SECONDS)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Creates or changes objects."""
        everything = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=json.dumps(everything))

    def wait(self, *arguments: object, seconds: float = PATIENCE_SECONDS) -> None:
        """`kubectl wait`: returns when it has happened."""
        self.kubectl("wait", f"--timeout={seconds}s", *arguments)

    def wait_for_nodes(self, *nodes: Node) -> None:
        """Returns when these nodes, or all, are Ready and open to pods, and the API has a line to each."""
        wanted = [node.name for node in nodes or self.nodes]
        for name in wanted:
            well = partial(self._kubelet_is_well, name)
            until(well, what=f"the kubelet of {name} answers", seconds=PATIENCE_SECONDS)
        self.wait("--for=condition=Ready", *(f"node/{name}" for name in wanted))
        for name in wanted:  # which the controllers allow a little later
            until(partial(self._is_open, name), what=f"pods may go to {name}", seconds=PATIENCE_SECONDS)

    def wait_for_signs_of_life(self, since: datetime) -> None:
        """Returns when each node has told the API server, since that moment, that it lives."""
        heard = partial(self._have_all_been_heard, since)
        until(heard, what="each node has renewed its lease", seconds=PATIENCE_SECONDS)

    def _kubelet_is_well(self, node: str) -> bool:
        try:
            return self.answers.read(f"/api/v1/nodes/{node}/proxy/healthz") == "ok"
        except ElasticError:
            return False

    def _is_open(self, node: str) -> bool:
        taints = {taint["key"] for taint in self.get("node", node)["spec"].get("taints", [])}
        return taints.isdisjoint(LOST_TAINTS)

    def _have_all_been_heard(self, since: datetime) -> bool:
        leases = self.get("leases", "--namespace=kube-node-lease")["items"]
        heard = {each["metadata"]["name"]: each["spec"]["renewTime"] for each in leases}
        return all(datetime.fromisoformat(heard[node.name]) > since for node in self.nodes)
