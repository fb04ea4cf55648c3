"""What a pod's container asks for and what it may do."""

import pytest
from plans import child, container, plan

from elastic_runtime.platform.kubernetes.container import resources
from elastic_runtime.platform.pods import Role


@pytest.mark.parametrize(
    ("request_", "limit", "requests", "limits"),
    [
        ("", "", {}, {}),
        ("cpu=0.4,memory=1024Mi", "", {"cpu": "0.4", "memory": "1024Mi"}, {"cpu": "0.4", "memory": "1024Mi"}),
        ("cpu=0.4", "cpu=1,memory=2048Mi", {"cpu": "0.4"}, {"cpu": "1", "memory": "2048Mi"}),
        ("", "cpu=250m", {}, {"cpu": "250m"}),
        ("cpu=1,disk=5G", "", *[{"cpu": "1", "ephemeral-storage": "5G"}] * 2),
        ("memory=500000K", "", *[{"memory": "500000k"}] * 2),
        ("memory=500000Ki", "", *[{"memory": "500000Ki"}] * 2),
        ("cpu=1,gpu=2", "cpu=4", {"cpu": "1", "nvidia.com/gpu": "2"}, {"cpu": "4", "nvidia.com/gpu": "2"}),
        ("cpu=1", "amd.com/gpu=1", {"cpu": "1"}, {"amd.com/gpu": "1"}),
    ],
)
def test_resources(request_, limit, requests, limits):
    found = resources(request_, limit)
    assert (found.requests, found.limits) == (requests, limits)


def test_each_role_has_its_own_resources():
    options = [
        f"--{role}_resource_{kind}=cpu={cores}"
        for role, kind, cores in (
            ("master", "request", 1),
            ("master", "limit", 2),
            ("worker", "request", 3),
            ("worker", "limit", 4),
            ("ps", "request", 5),
            ("ps", "limit", 6),
        )
    ]
    blueprint = plan(*options)
    pods = [blueprint.master_pod(["python"]), blueprint.pod(child()), blueprint.pod(child(Role.PS))]
    asked = [container(pod).resources for pod in pods]
    assert [(each.requests["cpu"], each.limits["cpu"]) for each in asked] == [
        ("1", "2"),
        ("3", "4"),
        ("5", "6"),
    ]


def test_a_pod_has_no_rights_it_does_not_need():
    pod = plan("--volume=claim_name=c,mount_path=/data").pod(child())
    outside, inside = pod.spec.security_context, container(pod).security_context
    assert outside.run_as_non_root
    assert outside.run_as_user == outside.fs_group == 1000
    assert outside.seccomp_profile.type == "RuntimeDefault"
    assert not inside.allow_privilege_escalation
    assert inside.capabilities.drop == ["ALL"]


def test_on_the_nodes_own_files_a_pod_is_whom_its_image_says():
    pod = plan("--volume=claim_name=c,mount_path=/c;host_path=/data,mount_path=/data").pod(child())
    outside, inside = pod.spec.security_context, container(pod).security_context
    assert (outside.run_as_non_root, outside.run_as_user, inside.capabilities) == (None, None, None)
    assert outside.fs_group == 1000  # for the claim
    assert not inside.allow_privilege_escalation


def test_the_last_words_of_a_failed_pod_are_kept_with_it():
    assert container(plan().pod(child())).termination_message_policy == "FallbackToLogsOnError"
