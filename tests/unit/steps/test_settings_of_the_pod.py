"""Whose pod tells what was set on a step: that of KFP's, and no other engine's."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes.client import V1Pod

from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.steps import in_cluster
from tests.unit.platform.kubernetes.step_pod import step_pod


class Namespace:
    """It has one pod."""

    def get_pod(self, name: str) -> V1Pod | None:
        return step_pod(nodeSelector={"pool": "train"}) if name == "own" else None

    def close(self) -> None:
        """There is nothing to end."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Api, "connect", lambda namespace: Namespace())
    monkeypatch.setattr(in_cluster, "NAMESPACE_FILE", tmp_path / "namespace")
    (tmp_path / "namespace").write_text("kubeflow")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.delenv("KFP_POD_NAME", raising=False)


@pytest.mark.usefixtures("cluster")
def test_a_step_of_kfp_finds_what_its_own_pod_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFP_POD_NAME", "own")
    found = in_cluster.settings_of_the_pod()
    assert found is not None
    assert found.node_selector == {"pool": "train"}


@pytest.mark.usefixtures("cluster")
def test_a_template_of_argo_says_all_by_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGO_POD_NAME", "own")
    assert in_cluster.settings_of_the_pod() is None


def test_where_there_is_no_cluster_nothing_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFP_POD_NAME", "own")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert in_cluster.settings_of_the_pod() is None
