"""A job that is a step of a workflow belongs to it, and ends with it."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import pytest
from kubernetes import client

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes.objects import WORKFLOW, Blueprint, Owner, workflow_of
from elastic_runtime.platform.pods import PodSpec, Role
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.steps.in_cluster import refuse_what_pods_do_not_see
from elastic_runtime.steps.successor import goes_on

FLOW = Owner(kind="Workflow", api_version="argoproj.io/v1alpha1", name="w", uid="u")
ANCHOR = Owner(kind="ConfigMap", api_version="v1", name="elasticdl-j", uid="a")


def blueprint(workflow: Owner | None) -> Blueprint:
    spec = JobSpec.make({"job_name": "j", "image_name": "i", "training_data": "/d", "model_def": "a.b"}, [])
    return dataclasses.replace(Blueprint.of(spec), workflow=workflow)


def owners(made) -> list[str]:
    return [reference.kind for reference in made.metadata.owner_references or []]


@pytest.mark.parametrize(
    ("workflow", "of_the_anchor", "of_a_pod", "container"),
    [(FLOW, ["Workflow"], ["Workflow"], "main"), (None, [], ["ConfigMap"], "worker")],
)
def test_pods_and_what_outlives_them_belong_to_the_workflow(
    workflow, of_the_anchor, of_a_pod, container
) -> None:
    plan = blueprint(workflow)
    pod = plan.pod(PodSpec("elasticdl-j-worker-0", "j", Role.WORKER, 0, ("python",)), ANCHOR)
    assert owners(plan.anchor()) == of_the_anchor
    assert owners(pod) == of_a_pod
    assert owners(plan.ps_service(0, ANCHOR)) == owners(plan.secret("t", ANCHOR)) == ["ConfigMap"]
    assert pod.spec.containers[0].name == container
    assert pod.metadata.labels.get(WORKFLOW) == (workflow.name if workflow else None)


def test_a_pod_tells_the_workflow_that_it_is_a_step_of() -> None:
    others = client.V1OwnerReference(kind="ReplicaSet", api_version="apps/v1", name="r", uid="r")
    for references, found in (([others, FLOW.reference()], FLOW), ([others], None), (None, None)):
        pod = client.V1Pod(metadata=client.V1ObjectMeta(name="p", owner_references=references))
        assert workflow_of(pod) == found
    assert workflow_of(None) is None


@pytest.mark.parametrize(
    ("metadata", "spec", "expected"),
    [
        ({}, {}, True),
        ({}, {"activeDeadlineSeconds": 600}, True),
        ({}, {"activeDeadlineSeconds": 300}, False),
        ({}, {"shutdown": "Stop"}, False),
        ({}, {"shutdown": "Terminate"}, False),
        ({}, {"activeDeadlineSeconds": 0}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, False),
    ],
)
def test_a_workflow_that_is_being_ended_runs_no_step_again(metadata, spec, expected) -> None:
    status = {"startedAt": "2026-01-01T00:00:00Z"}
    now = datetime.fromisoformat("2026-01-01T00:05:00Z").timestamp()
    assert goes_on({"metadata": metadata, "spec": spec, "status": status}, now) is expected


def test_data_that_only_the_step_sees_is_refused() -> None:
    mounted = "claim_name=c,mount_path=/data"
    refuse_what_pods_do_not_see("/data/mnist", mounted, where="training_data")
    refuse_what_pods_do_not_see("s3://bucket/mnist", "", where="training_data")
    for place, volume in (
        ("/inputs/training_dataset", mounted),
        ("/data2/mnist", mounted),
        ("/data/mnist", ""),
    ):
        with pytest.raises(InputError, match="the job's other pods do not see it"):
            refuse_what_pods_do_not_see(place, volume, where="training_data")
