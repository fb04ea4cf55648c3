"""What the clean-up asks of a cluster: no more than there is to clean up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from kubernetes.client import V1Pod

from elastic_runtime.platform.kubernetes import labels
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import Forbidden
from elastic_runtime.platform.pods import Role
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.steps import in_cluster
from tests.unit.platform.kubernetes.step_pod import as_pod

JOB = {"job_name": "j", "image_name": "i", "training_data": "/d", "model_def": "a.b", "namespace": "n"}


class StockApi:
    """That of an account which may read config maps, and delete pods only."""

    def __init__(self) -> None:
        self.config_map: object | None = None
        self.pods: list[V1Pod] = []

    def list_pods(self, selector: str) -> SimpleNamespace:
        return SimpleNamespace(items=self.pods)

    def get_config_map(self, name: str) -> object | None:
        return self.config_map

    def delete_config_map(self, name: str) -> None:
        raise Forbidden("this account may not delete configmaps", where="Kubernetes")

    def close(self) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StockApi:
    made = StockApi()
    monkeypatch.setattr(Api, "connect", lambda namespace: made)
    monkeypatch.setattr(in_cluster, "NAMESPACE_FILE", tmp_path / "namespace")
    (tmp_path / "namespace").write_text("kubeflow")
    return made


def test_of_a_job_that_made_nothing_in_the_cluster_nothing_has_to_be_deleted(api: StockApi) -> None:
    assert in_cluster.end_pods("j") == []


def test_what_is_there_and_may_not_be_deleted_is_an_error(api: StockApi) -> None:
    api.config_map = object()
    with pytest.raises(Forbidden):
        in_cluster.end_pods("j")


def attempt(name: str, end: dict[str, object]) -> V1Pod:
    """Of the training step: Argo's own container is in its pod, too, and does not run out of memory."""
    limits = {"limits": {"memory": "1Gi"}}
    containers = [{"name": "wait", "image": "w"}, {"name": "main", "image": "i", "resources": limits}]
    states = {"wait": {"terminated": {"exitCode": 0}}, "main": {"terminated": end}}
    told = [
        {"name": each, "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        for each, state in states.items()
    ]
    marks = labels.labels("j", Role.MASTER)
    status = {"phase": "Failed", "containerStatuses": told}
    return as_pod(
        {"metadata": {"name": name, "labels": marks}, "spec": {"containers": containers}, "status": status}
    )


def test_a_master_that_was_killed_for_memory_without_a_word_is_told_of_at_the_end(
    api: StockApi, caplog: pytest.LogCaptureFixture
) -> None:
    killed = attempt("step-0", {"exitCode": 137, "reason": "OOMKilled"})
    api.pods = [killed, attempt("step-1", {"exitCode": 1, "reason": "Error"})]
    assert in_cluster.end_pods("j") == []
    assert caplog.messages == ["a master of the job: step-0 was killed for memory: its limit is 1Gi"]


@pytest.mark.parametrize("is_last", [True, False])
def test_of_a_failed_job_what_nobody_comes_to_remove_is_removed(
    api: StockApi, monkeypatch: pytest.MonkeyPatch, is_last: bool
) -> None:
    monkeypatch.setattr("elastic_runtime.steps.successor.nobody_comes_after", lambda _: is_last)
    removed: list[str] = []
    api.config_map = object()
    monkeypatch.setattr(StockApi, "delete_config_map", lambda _, name: removed.append(name))
    in_cluster.leave_nothing_that_nobody_removes(JobSpec.make(JOB, []))
    assert removed == (["elasticdl-j"] if is_last else [])


def test_what_cannot_be_removed_of_a_failed_job_is_said(
    api: StockApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("elastic_runtime.steps.successor.nobody_comes_after", lambda _: True)
    api.config_map = object()
    in_cluster.leave_nothing_that_nobody_removes(JobSpec.make(JOB, []))
    assert "may not delete configmaps" in caplog.text
