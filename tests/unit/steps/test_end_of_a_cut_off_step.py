"""A step that was told to end cleans up after its job, unless the job is another's by now."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kubernetes.client import V1ObjectMeta, V1Pod, V1PodSpec, V1PodStatus

from elastic_runtime.platform.kubernetes import labels
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.pods import Role
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.steps import in_cluster, successor

ME, OTHER = "step-of-me", "step-of-another-run"


def pod(name: str, role: Role, phase: str = "Running") -> V1Pod:
    return V1Pod(
        metadata=V1ObjectMeta(name=name, uid=name, labels=labels.labels("j", role)),
        spec=V1PodSpec(containers=[]),
        status=V1PodStatus(phase=phase),
    )


class Namespace:
    """The pods of one job, and what is deleted."""

    def __init__(self, *pods: V1Pod) -> None:
        self.pods, self.deleted = pods, []

    def list_pods(self, selector: str) -> SimpleNamespace:
        masters = [pod for pod in self.pods if pod.metadata.labels[labels.ROLE] == Role.MASTER]
        return SimpleNamespace(items=masters if selector == labels.master_of("j") else self.pods)

    def get_config_map(self, name: str) -> object:
        return object()

    def delete_config_map(self, name: str) -> None:
        self.deleted.append(name)

    def delete_pod(self, name: str, *, grace: int | None, uid: str) -> None:
        self.deleted.append(name)

    def await_gone(self, name: str, *, uid: str, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _told_to_end(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[None]:
    """By a workflow that will not run it again, in this pod."""
    (tmp_path / "namespace").write_text("n")
    monkeypatch.setattr(in_cluster, "NAMESPACE_FILE", tmp_path / "namespace")
    monkeypatch.setattr(successor, "will_be_run_again", lambda namespace: False)
    monkeypatch.setenv("KFP_POD_NAME", ME)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def end(monkeypatch: pytest.MonkeyPatch, namespace: Namespace) -> bool:
    monkeypatch.setattr(Api, "connect", lambda *_, **__: namespace)
    options = {"job_name": "j", "model_def": "a.b", "training_data": "/d", "image_name": "i"}
    return in_cluster.end_unless_continued(JobSpec.make(options, []))


def test_a_step_that_will_not_be_run_again_ends_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pod("an-earlier-attempt", Role.MASTER, phase="Failed")
    namespace = Namespace(pod(ME, Role.MASTER), before, pod("w", Role.WORKER))
    assert not end(monkeypatch, namespace)
    assert namespace.deleted == [labels.anchor_name("j"), "w"]


def test_a_job_that_another_run_goes_on_with_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    namespace = Namespace(pod(ME, Role.MASTER), pod(OTHER, Role.MASTER), pod("w", Role.WORKER))
    assert not end(monkeypatch, namespace)
    assert namespace.deleted == []
    assert OTHER in caplog.text
