"""Pods that were deleted, on nodes that say so and on nodes that say nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from kubernetes.client import V1ObjectMeta, V1Pod, V1PodCondition, V1PodSpec, V1PodStatus

from elastic_runtime.platform.kubernetes import removal
from elastic_runtime.platform.kubernetes.errors import StillThere
from elastic_runtime.platform.kubernetes.removal import see_off


def pod(name: str, *, grace: int = 30) -> V1Pod:
    metadata = V1ObjectMeta(name=name, uid=f"uid of {name}")
    spec = V1PodSpec(containers=[], termination_grace_period_seconds=grace)
    return V1Pod(metadata=metadata, spec=spec, status=V1PodStatus())


def known_to_be_lost(name: str) -> V1Pod:
    """As the cluster has it that has noticed that the node is gone."""
    found = pod(name)
    found.metadata.deletion_timestamp = datetime.now(UTC)
    moved = V1PodCondition(type="DisruptionTarget", status="True", reason="DeletionByTaintManager")
    found.status.conditions = [moved, V1PodCondition(type="Ready", status="False")]
    return found


class Cluster:
    """Where no time passes but that in which somebody waits for a pod that does not go."""

    def __init__(self, *silent: str, held: str = "") -> None:
        self.silent, self.held = {*silent, held}, held
        self.now = 1000.0
        self.removed: list[tuple[str, float]] = []

    def delete_pod(self, name: str, *, grace: int, uid: str) -> None:
        assert (grace, uid) == (0, f"uid of {name}")
        self.removed.append((name, self.now))
        self.silent -= {name} - {self.held}

    def await_gone(self, name: str, *, uid: str, seconds: float) -> None:
        assert uid == f"uid of {name}"
        if name in self.silent:
            self.now += max(0.0, seconds)
            raise StillThere(f"pod {name} is still there")


@pytest.fixture
def make_cluster(monkeypatch: pytest.MonkeyPatch):
    def make(*silent: str, **more: str) -> Cluster:
        cluster = Cluster(*silent, **more)
        monkeypatch.setattr(removal, "time", SimpleNamespace(monotonic=lambda: cluster.now))
        return cluster

    return make


def test_pods_whose_nodes_say_nothing_are_removed_after_their_grace_all_at_the_same_time(make_cluster):
    cluster = make_cluster("b", "c")
    see_off(cluster, [pod("a"), pod("b"), pod("c")], grace=5)
    assert cluster.removed == [("b", 1020.0), ("c", 1020.0)]


def test_a_pod_that_was_given_no_grace_has_its_own(make_cluster):
    cluster = make_cluster("a", "b")
    see_off(cluster, [pod("a", grace=10), pod("b", grace=100)])
    assert cluster.removed == [("a", 1025.0), ("b", 1115.0)]


def test_a_node_that_the_cluster_knows_to_be_lost_is_not_waited_for(make_cluster):
    cluster = make_cluster("a", "b")
    see_off(cluster, [known_to_be_lost("a"), pod("b")], grace=5)
    assert cluster.removed == [("a", 1000.0), ("b", 1020.0)]


def test_a_pod_that_stays_though_its_node_is_not_asked_is_an_error(make_cluster):
    with pytest.raises(StillThere):
        see_off(make_cluster(held="a"), [pod("a")], grace=5)
