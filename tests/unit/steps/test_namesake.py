"""Who may be the master of a job: attempts of a step one after the other, others not at the same time."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import V1ObjectMeta, V1OwnerReference, V1Pod, V1PodSpec, V1PodStatus

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes import labels
from elastic_runtime.steps.namesake import NODE, become_master, other_run

ME = "step-of-me"


def pod(name: str, run: str, *, phase: str = "Running", deleted: bool = False, node: str = "") -> V1Pod:
    owner = V1OwnerReference(api_version="argoproj.io/v1alpha1", kind="Workflow", name=run, uid=f"uid-{run}")
    return V1Pod(
        metadata=V1ObjectMeta(
            name=name,
            labels={},
            annotations={NODE: node} if node else None,
            owner_references=[owner] if run else None,
            deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC) if deleted else None,
        ),
        spec=V1PodSpec(containers=[]),
        status=V1PodStatus(phase=phase),
    )


class Pods:
    """Those of a namespace; all but one's own are labelled as masters of the job."""

    def __init__(self, own: V1Pod, *others: V1Pod, late: V1Pod | None = None) -> None:
        self.own, self.others, self.late = own, [*others], late

    def list_pods(self, selector: str) -> Any:
        assert selector == labels.master_of("j")
        own = [self.own] if labels.JOB in self.own.metadata.labels else []
        return SimpleNamespace(items=[*self.others, *own])

    def get_pod(self, name: str) -> V1Pod:
        assert name == ME
        return self.own

    def patch_pod(self, name: str, patch: dict[str, Any]) -> V1Pod:
        assert name == ME
        changed = {**self.own.metadata.labels, **patch["metadata"]["labels"]}
        self.own.metadata.labels = {key: value for key, value in changed.items() if value is not None}
        if self.late:
            self.others.append(self.late)
        return self.own


@pytest.mark.parametrize(
    "other",
    [
        pod("attempt-before", "mine"),
        pod("of-another", "other", phase="Failed"),
        pod("of-another", "other", phase="Succeeded"),
        pod("of-another", "other", deleted=True),
    ],
    ids=["of the same run", "that failed", "that succeeded", "that is being deleted"],
)
def test_a_step_goes_on_with_the_job_of_one(other: V1Pod) -> None:
    api = Pods(pod(ME, "mine"), other)
    assert become_master(api, "j", ME).metadata.labels[labels.ROLE] == "master"
    assert not other_run(api, "j", ME)


@pytest.mark.parametrize(("run", "named"), [("other", "other"), ("", "elasticdl-j-master")])
def test_the_living_job_of_another_run_is_not_taken(run: str, named: str) -> None:
    api = Pods(pod(ME, "mine"), pod("elasticdl-j-master", run))
    with pytest.raises(InputError, match=f"there already, in {named}"):
        become_master(api, "j", ME)
    assert api.own.metadata.labels == {}


def test_of_two_that_begin_at_once_the_one_that_sees_the_other_steps_back() -> None:
    api = Pods(pod(ME, "mine"), late=pod("of-another", "other"))
    with pytest.raises(InputError, match="there already, in other"):
        become_master(api, "j", ME)
    assert api.own.metadata.labels == {}


@pytest.mark.parametrize(
    ("mine", "before"),
    [
        ("w.train(1)", "w.train(0)"),
        ("w(1)", "w(0)"),
        ("w[0].train(2)", "w[0].train(1)"),
        ("w.again(1).train(0)", "w.again(0).train(1)"),
        ("w.train(0:a)(1)", "w.train(0:a)(0)"),
    ],
)
def test_a_step_goes_on_with_the_job_of_its_own_attempt_whose_pod_is_not_gone_yet(
    mine: str, before: str
) -> None:
    api = Pods(pod(ME, "w", node=mine), pod("attempt-before", "w", node=before))
    assert become_master(api, "j", ME).metadata.labels[labels.ROLE] == "master"


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        ("w.small(0)", "w.large(0)"),
        ("w[1].train(0)", "w[0].train(0)"),
        ("w.train(1:b)(0)", "w.train(0:a)(0)"),
    ],
)
def test_two_trainings_of_one_run_do_not_share_a_job(mine: str, other: str) -> None:
    api = Pods(pod(ME, "w", node=mine), pod("of-the-other", "w", node=other))
    with pytest.raises(InputError, match="give each training of a run a job_name of its own"):
        become_master(api, "j", ME)
    assert api.own.metadata.labels == {}
    assert not other_run(api, "j", ME), "the run's clean-up ends both"
