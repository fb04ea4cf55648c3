"""What is set on a task reaches workers and parameter servers as options of the job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kfp.dsl import TaskConfig

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes.objects import Blueprint
from elastic_runtime.platform.kubernetes.own_pod import settings_of
from elastic_runtime.platform.pods import PodSpec, Role
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.resources import parse_resources
from elastic_runtime.steps.options import arguments
from elastic_runtime.steps.task_settings import from_task, in_words
from tests.unit.platform.kubernetes.step_pod import step_pod

JOB = {"job_name": "j", "model_def": "a.b", "training_data": "/data", "image_name": "i"}


def test_nothing_set_changes_nothing() -> None:
    assert from_task(None, {}) == from_task(TaskConfig(), {}) == {}


def test_resources_are_for_workers_and_servers_accelerators_for_workers() -> None:
    task = TaskConfig(
        resources={
            "requests": {"cpu": "2", "memory": "4Gi"},
            "limits": {"cpu": "3", "memory": "8Gi", "nvidia.com/gpu": "1"},
        }
    )
    spec = parse("train", arguments(JOB | from_task(task, JOB))).spec
    assert spec.worker_resource_request == spec.ps_resource_request == "cpu=2,memory=4Gi"
    assert spec.worker_resource_limit == "cpu=3,memory=8Gi,nvidia.com/gpu=1"
    assert spec.ps_resource_limit == "cpu=3,memory=8Gi"


def test_a_limit_alone_is_the_request_too_even_below_the_jobs_default() -> None:
    task = TaskConfig(resources={"limits": {"memory": "2G"}})
    spec = parse("train", arguments(JOB | from_task(task, JOB))).spec
    assert spec.worker_resource_request == spec.ps_resource_request == "memory=2G"
    assert spec.worker_resource_limit == spec.ps_resource_limit == "memory=2G"


def test_a_limit_that_the_job_does_not_take_is_no_request_either() -> None:
    task = TaskConfig(resources={"limits": {"memory": "8G"}})
    options = from_task(task, {"worker_resource_limit": "memory=6G", "ps_resource_limit": "memory=6G"})
    assert options == {}


def test_an_accelerator_alone_leaves_the_request_as_it_is() -> None:
    task = TaskConfig(resources={"limits": {"nvidia.com/gpu": "1"}})
    assert from_task(task, {}) == {"worker_resource_limit": "nvidia.com/gpu=1"}


def test_what_the_job_says_itself_wins() -> None:
    task = TaskConfig(resources={"requests": {"cpu": "2"}})
    options = from_task(task, {"worker_resource_request": "cpu=9"})
    assert options == {"ps_resource_request": "cpu=2", "ps_resource_limit": "none"}


def test_a_request_without_a_limit_has_none_for_pods_either() -> None:
    task = TaskConfig(resources={"requests": {"memory": "256Mi"}, "limits": {"nvidia.com/gpu": "1"}})
    blueprint = Blueprint.of(parse("train", arguments(JOB | from_task(task, JOB))).spec)
    made = [
        blueprint.pod(PodSpec("p", "j", role, 0, ("true",))).spec.containers[0].resources
        for role in (Role.WORKER, Role.PS)
    ]
    assert [each.requests for each in made] == [{"memory": "256Mi"}, {"memory": "256Mi"}]
    assert [each.limits for each in made] == [{"nvidia.com/gpu": "1"}, {}]


def test_beside_a_small_step_workers_may_be_large() -> None:
    task = TaskConfig(resources={"limits": {"memory": "2Gi"}})
    job = JOB | {"worker_resource_request": "cpu=4,memory=16Gi"}
    spec = parse("train", arguments(job | from_task(task, job))).spec
    assert (spec.worker_resource_request, spec.worker_resource_limit) == ("cpu=4,memory=16Gi", "")
    assert spec.ps_resource_request == spec.ps_resource_limit == "memory=2Gi"


def test_a_limit_of_the_jobs_own_goes_with_no_request_of_the_task() -> None:
    task = TaskConfig(resources={"requests": {"memory": "8Gi"}})
    job = JOB | {"worker_resource_limit": "memory=6Gi", "ps_resource_limit": "memory=6Gi"}
    assert from_task(task, job) == {}


def test_plain_bytes_and_devices_of_any_vendor_are_handed_on_the_devices_to_workers_only() -> None:
    devices = {"google.com/tpu": "4", "nvidia.com/mig-1g.5gb": "1", "nvidia.com/gpu.shared": "1"}
    task = TaskConfig(resources={"limits": {"memory": "536870912", **devices}})
    spec = parse("train", arguments(JOB | from_task(task, JOB))).spec
    assert parse_resources(spec.worker_resource_limit) == {"memory": "536870912", **devices}
    assert spec.ps_resource_limit == spec.ps_resource_request == "memory=536870912"


def test_volumes_selectors_tolerations_and_secrets_reach_the_pods() -> None:
    secret = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    taint = {"key": "pool", "operator": "Exists"}
    task = TaskConfig(
        volumes=[
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "hostPath": {"path": "/mnt", "type": "Directory"}},
        ],
        volume_mounts=[
            {"name": "a", "mountPath": "/data", "subPath": "x"},
            {"name": "b", "mountPath": "/host"},
        ],
        node_selector={"pool": "train"},
        tolerations=[taint],
        env=[secret],
    )
    spec = parse("train", arguments(JOB | from_task(task, JOB))).spec
    claim, host = spec.volumes
    assert (claim.claim_name, claim.mount_path, claim.sub_path) == ("data", "/data", "x")
    assert (host.host_path, host.mount_path, host.type) == ("/mnt", "/host", "Directory")
    assert spec.node_selector == "pool=train"
    sections = json.loads(spec.cluster_spec_json)
    assert sections["worker_pod_spec"] == sections["ps_pod_spec"] == {"env": [secret], "tolerations": [taint]}


def test_a_volume_of_another_kind_is_in_the_pods_as_it_was_on_the_task() -> None:
    secret = {"name": "login", "secret": {"secretName": "login"}}
    mounts = [{"name": "login", "mountPath": "/login", "readOnly": True}, {"name": "a", "mountPath": "/data"}]
    task = TaskConfig(
        volumes=[secret, {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}], volume_mounts=mounts
    )
    spec = parse("train", arguments(JOB | from_task(task, JOB))).spec
    assert [volume.claim_name for volume in spec.volumes] == ["data"]
    for role in (Role.PS, Role.WORKER):
        made = Blueprint.of(spec).pod(PodSpec("p", "j", role, 0, ("true",)))
        assert [(v.name, v.secret.secret_name) for v in made.spec.volumes if v.secret] == [("login", "login")]
        [mount] = [m for m in made.spec.containers[0].volume_mounts if m.name == "login"]
        assert (mount.mount_path, mount.read_only) == ("/login", True)


def variables(pod: Any) -> dict[str, str]:
    return {variable.name: variable.value for variable in pod.spec.containers[0].env}


def test_a_cluster_spec_of_the_jobs_own_goes_before_the_tasks_settings_and_leaves_the_others() -> None:
    own = {
        "pod_spec": {"env": [{"name": "FOR_ALL", "value": "job"}], "labels": {"team": "a"}},
        "worker_pod_spec": {
            "env": [{"name": "FOR_WORKERS", "value": "job"}],
            "tolerations": [{"key": "mine"}],
            "affinity": {"nodeAffinity": {}},
        },
    }
    task = TaskConfig(
        env=[{"name": name, "value": "task"} for name in ("FOR_ALL", "FOR_WORKERS", "MORE")],
        tolerations=[{"key": "pool"}],
        affinity={"podAntiAffinity": {}},
    )
    job = JOB | {"cluster_spec_json": json.dumps(own)}
    blueprint = Blueprint.of(parse("train", arguments(job | from_task(task, job))).spec)
    worker, server = (blueprint.pod(PodSpec("p", "j", role, 0, ("true",))) for role in (Role.WORKER, Role.PS))
    wanted = {"FOR_ALL": "job", "FOR_WORKERS": "job", "MORE": "task"}
    assert variables(worker).items() >= wanted.items()
    assert variables(server).items() >= (wanted | {"FOR_WORKERS": "task"}).items()
    assert [toleration.key for toleration in worker.spec.tolerations][-2:] == ["pool", "mine"]
    assert worker.spec.affinity.node_affinity
    assert not worker.spec.affinity.pod_anti_affinity
    assert server.spec.affinity.pod_anti_affinity
    assert worker.metadata.labels["team"] == server.metadata.labels["team"] == "a"


def test_variables_of_the_jobs_own_go_before_those_of_the_task() -> None:
    task = TaskConfig(env=[{"name": "SHARED", "value": "task"}, {"name": "MORE", "value": "task"}])
    job = JOB | {"envs": "SHARED=job"}
    blueprint = Blueprint.of(parse("train", arguments(job | from_task(task, job))).spec)
    worker = blueprint.pod(PodSpec("p", "j", Role.WORKER, 0, ("true",)))
    assert variables(worker).items() >= {"SHARED": "job", "MORE": "task"}.items()


def test_what_only_the_steps_pod_tells_reaches_the_jobs_pods_and_is_said_without_what_is_secret() -> None:
    found = settings_of(
        step_pod(
            volumes=(
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "login", "secret": {"secretName": "login"}},
            ),
            mounts=({"name": "data", "mountPath": "/data"}, {"name": "login", "mountPath": "/login"}),
            env=({"name": "KEY", "value": "hidden"},),
            tolerations=({"key": "pool", "operator": "Exists"},),
            resources={"limits": {"memory": "2G"}, "requests": {"memory": "2G"}},
        )
    )
    spec = parse("train", arguments(JOB | from_task(found, JOB))).spec
    worker = Blueprint.of(spec).pod(PodSpec("p", "j", Role.WORKER, 0, ("true",)))
    [container] = worker.spec.containers
    assert {mount.mount_path for mount in container.volume_mounts} == {"/data", "/login", "/elasticdl"}
    assert [toleration.key for toleration in worker.spec.tolerations][-1] == "pool"
    assert container.resources.limits == {"memory": "2G"}
    assert variables(worker)["KEY"] == "hidden"
    assert in_words(found, JOB | {"ps_resource_request": "cpu=1"}) == (
        "worker_resource_request=memory=2G; worker_resource_limit=memory=2G; "
        "volume=mount_path=/data,claim_name=data; tolerations pool; env KEY; volumes login"
    )


@pytest.mark.parametrize("wrong", ["{", "[]", '{"pod_spec": 5}', '{"worker_pod_spec": {"env": [5]}}'])
def test_a_cluster_spec_that_is_wrong_is_refused_as_such(wrong: str) -> None:
    job = JOB | {"cluster_spec_json": wrong}
    settings = from_task(TaskConfig(env=[{"name": "A", "value": "b"}]), job)
    with pytest.raises(InputError, match="--cluster_spec_json"):
        Blueprint.of(parse("train", arguments(job | settings)).spec)
