"""What was set on a step is told by its pod, and what each such pod has is told apart."""

from __future__ import annotations

from typing import Any

import pytest

from elastic_runtime.platform.kubernetes.own_pod import Account, settings_of, variables_of_it_alone
from tests.unit.platform.kubernetes.step_pod import BY_DEFAULT, step_pod

TOKEN = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
INJECTED = {
    "volumes": (
        {"name": "aws-iam-token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ),
    "mounts": ({"name": "aws-iam-token", "mountPath": TOKEN, "readOnly": True},),
    "env": (
        {"name": "AWS_ROLE_ARN", "value": "arn:aws:iam::1:role/training"},
        {"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": f"{TOKEN}/token"},
        {"name": "AWS_DEFAULT_REGION", "value": "eu-west-1"},
    ),
}


def test_nothing_is_found_where_nothing_was_set() -> None:
    assert not any(vars(settings_of(step_pod())).values())


def test_what_was_set_is_found_as_it_was() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    login = {"name": "login", "secret": {"secretName": "login", "defaultMode": 420}}
    mounts = ({"name": "data", "mountPath": "/data"}, {"name": "login", "mountPath": "/login"})
    key = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}
    taint = {"key": "pool", "operator": "Equal", "value": "train", "effect": "NoSchedule"}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    found = settings_of(
        step_pod(
            volumes=(claim, login),
            mounts=mounts,
            env=(key, {"name": "A", "value": "b"}),
            tolerations=(taint,),
            resources={"requests": {"cpu": "2"}, "limits": {"memory": "2G"}},
            nodeSelector={"pool": "train"},
            affinity=affinity,
        )
    )
    assert found.volumes == [claim, login]
    assert found.volume_mounts == [*mounts]
    assert found.env == [key, {"name": "A", "value": "b"}]
    assert found.tolerations == [taint]
    assert found.node_selector == {"pool": "train"}
    assert found.affinity == affinity
    assert found.resources == {"requests": {"cpu": "2"}, "limits": {"memory": "2G"}}


def test_what_a_cluster_tolerates_for_each_pod_is_not_taken_however_long_it_does() -> None:
    shorter = {**BY_DEFAULT[0], "tolerationSeconds": 5}
    assert not settings_of(step_pod(tolerations=(shorter,))).tolerations


def test_of_a_device_only_the_limit_was_set() -> None:
    amounts = {"nvidia.com/gpu": "1"}
    found = settings_of(step_pod(resources={"requests": amounts, "limits": amounts}))
    assert found.resources == {"limits": amounts}


@pytest.mark.parametrize(
    ("said", "requests", "limits"),
    [
        ("cpu, memory request for container main; memory limit for container main", {}, {}),
        ("cpu request for container main", {"memory": "256Mi"}, {"memory": "512Mi"}),
        ("cpu, memory request for container wait", {"cpu": "100m", "memory": "256Mi"}, {"memory": "512Mi"}),
    ],
)
def test_what_a_limit_range_has_added_was_not_set(
    said: str, requests: dict[str, str], limits: dict[str, str]
) -> None:
    pod = step_pod(
        resources={"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        annotations={"kubernetes.io/limit-ranger": f"LimitRanger plugin set: {said}"},
    )
    wanted = {"requests": requests, "limits": limits}
    assert settings_of(pod).resources == {kind: amounts for kind, amounts in wanted.items() if amounts}


def test_what_a_cloud_has_injected_by_the_account_is_the_pods_alone() -> None:
    pod = step_pod(**INJECTED)
    found = settings_of(pod)
    assert found.env == [{"name": "AWS_DEFAULT_REGION", "value": "eu-west-1"}]
    assert not found.volumes
    assert not found.volume_mounts
    assert {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"} <= {*variables_of_it_alone(pod)}


def test_a_token_that_was_set_by_a_secret_is_handed_on() -> None:
    secret: dict[str, Any] = {
        **INJECTED,
        "volumes": ({"name": "aws-iam-token", "secret": {"secretName": "token"}},),
    }
    pod = step_pod(**secret)
    assert settings_of(pod).env == [*INJECTED["env"]]
    assert not variables_of_it_alone(pod)


def test_an_account_is_that_of_the_pod() -> None:
    pod = step_pod(imagePullSecrets=[{"name": "registry-a"}, {"name": "registry-b"}])
    assert Account.of(pod) == Account(name="pipeline-runner", pull_secrets=("registry-a", "registry-b"))
    assert Account.of(None) == Account()
