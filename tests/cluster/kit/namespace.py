"""A namespace of a cluster, and what a test does in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from elastic_runtime.errors import ElasticError
from tests.cluster.kit.asking import NotThereError
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster

NO_LOG = ("is waiting to start", "is not available", "is terminated", "no logs available")
"""What a kubelet says of a container that has not been started (yet, or at all)."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace; all that is named here is in it."""

    cluster: Cluster
    name: str

    @classmethod
    def create(cls, cluster: Cluster, name: str) -> Namespace:
        """Makes it, and returns when pods can be made in it."""
        made = cls(cluster, name)
        cluster.kubectl("create", "namespace", name)
        made.wait("--for=create", "serviceaccount/default")
        return made

    def delete(self) -> None:
        """Has it removed, and waits for nothing."""
        self.cluster.kubectl("delete", "namespace", self.name, "--wait=false")

    def kubectl(self, *arguments: object, given: str = "", check: bool = True) -> str:
        """`kubectl` in this namespace."""
        return self.cluster.kubectl(f"--namespace={self.name}", *arguments, given=given, check=check)

    def get(self, *arguments: object) -> Any:
        """`kubectl get` of these, as objects."""
        return self.cluster.get(f"--namespace={self.name}", *arguments)

    def log(self, pod: str, container: str = "", *, lines: int = 0) -> str:
        """What a pod has written, or its last lines; nothing where there is no log (yet, or any more).

        Asked again where the machine stood still meanwhile: what was not heard is not nothing.
        """
        try:
            return self.cluster.again(partial(self._read_log, pod, container, lines))
        except NotThereError:
            return ""
        except ElasticError as problem:
            if any(sign in problem.what for sign in NO_LOG):
                return ""
            raise

    def tail(self, pod: str, container: str = "", *, lines: int) -> str:
        """The last lines of a log, for a message; asked once, or why there are none: its node may be lost."""
        try:
            return self._read_log(pod, container, lines)
        except ElasticError as problem:
            return f"({problem})"

    def _read_log(self, pod: str, container: str, lines: int) -> str:
        fields = {"container": container, "tailLines": str(lines or "")}
        given = tuple((name, value) for name, value in fields.items() if value)
        return self.cluster.answers.read(f"/api/v1/namespaces/{self.name}/pods/{pod}/log", given)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Creates or changes objects."""
        for each in objects:
            each["metadata"]["namespace"] = self.name
        self.cluster.apply(*objects)

    def wait(self, *arguments: object, seconds: float = PATIENCE_SECONDS) -> None:
        """`kubectl wait`: returns when it has happened."""
        self.kubectl("wait", f"--timeout={seconds}s", *arguments)

    def wait_for_phase(self, phase: str, *kinds_and_names: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Returns when all of these, such as `pod/mine`, are in this phase."""
        self.wait(f"--for=jsonpath={{.status.phase}}={phase}", *kinds_and_names, seconds=seconds)

    def run(self, *pods: dict[str, Any]) -> None:
        """Creates pods, and returns when they run."""
        self.apply(*pods)
        self.wait_for_phase("Running", *(f"pod/{each['metadata']['name']}" for each in pods))

    def output(self, pod: dict[str, Any]) -> str:
        """Creates a pod, and returns its log when it has succeeded."""
        self.apply(pod)
        self.wait_for_phase("Succeeded", f"pod/{pod['metadata']['name']}")
        return self.kubectl("logs", pod["metadata"]["name"])

    def status(self, pod: str) -> Any:
        """What the API says has become of a pod."""
        return self.get("pod", pod)["status"]
