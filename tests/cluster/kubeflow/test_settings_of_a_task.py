"""What is set on the task of a training the ordinary way, and by no option of its own, is that of its pods.

Beside it, what a training leaves whose run was retried and fails again. All runs are started at once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kfp import compiler, dsl, kubernetes

from components import clean_up, train
from elastic_runtime.steps.job_name import job_name
from tests.cluster.kubeflow import runs
from tests.cluster.kubeflow.trainings import FOLDER, GONE_SECONDS, PACE, TrainingRun, Workplace

ACCOUNT, SECRET, REGISTRY = "pipeline-runner", "login", "registry"
POOL = {"key": "pool", "operator": "Equal", "value": "training", "effect": "NoSchedule"}
MEMORY = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
FAILED, SET = "fails_again", "settings"


@pytest.fixture(scope="module")
def started(place: Workplace) -> Iterator[Mapping[str, TrainingRun]]:
    """Both runs; the secret that one of them is given is there, the one it pulls images with is not."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
    place.pipelines.namespace.apply({**secret, "stringData": {"word": "sesame"}})
    failing = place.pipeline(FAILED)
    (place.folder / FAILED / "pace").write_text("no number")
    try:
        yield {name: place.run(begun(place, package)) for name, package in given(place, failing).items()}
    finally:
        place.pipelines.namespace.kubectl("delete", "secret", SECRET, check=False)


def given(place: Workplace, failing: Any) -> dict[str, str]:
    """The packages of the two pipelines."""
    folder = place.folder / SET
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "pace").write_text(str(PACE))
    package = folder / "pipeline.yaml"
    compiler.Compiler().compile(settings(place), str(package))
    return {SET: str(package), FAILED: str(failing.package)}


def settings(place: Workplace) -> Any:
    """A training whose options say nothing of where its pods run, and with what."""

    @dsl.pipeline(name=SET)
    def pipeline():
        run = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        with dsl.ExitHandler(clean_up(job_name=run)):
            task = train(
                job_name=run,
                image_name=place.image,
                image_pull_policy="IfNotPresent",
                model_zoo=f"{FOLDER}/zoo",
                model_def="tiny.custom_model",
                training_data=f"{FOLDER}/data",
                minibatch_size=8,
                num_minibatches_per_task=1,
                num_workers=1,
            )
            task.set_env_variable("TINY_PACE", f"{FOLDER}/{SET}/pace")
            task.set_cpu_request(MEMORY["requests"]["cpu"]).set_memory_request(MEMORY["requests"]["memory"])
            task.set_memory_limit(MEMORY["limits"]["memory"])
            kubernetes.mount_pvc(task, pvc_name=place.claim, mount_path=FOLDER)
            kubernetes.use_secret_as_volume(task, secret_name=SECRET, mount_path="/login")
            kubernetes.use_secret_as_env(task, secret_name=SECRET, secret_key_to_env={"word": "WORD"})
            kubernetes.add_toleration(task, **POOL)
            kubernetes.add_node_selector(task, "kubernetes.io/os", "linux")
            kubernetes.set_image_pull_secrets(task, [REGISTRY])

    return pipeline


def begun(place: Workplace, package: str) -> str:
    create = functools.partial(place.client.create_run_from_pipeline_package, package)
    return runs.started(place.pipelines, place.client, create)


def test_pods_have_what_was_set_on_the_task_alone(
    place: Workplace, started: Mapping[str, TrainingRun]
) -> None:
    run = started[SET]
    run.until_training()
    pods = run.pods()
    for name in ("worker-0", "ps-0"):
        spec = pods[name]["spec"]
        [container] = spec["containers"]
        sources = {each["name"]: each for each in spec["volumes"]}
        mounts = {each["mountPath"]: sources[each["name"]] for each in container["volumeMounts"]}
        variables = {each["name"]: each for each in container["env"]}
        assert POOL in spec["tolerations"]
        assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
        assert mounts.keys() == {FOLDER, "/login", "/elasticdl"}, "the token of the API is not in it"
        assert mounts[FOLDER]["persistentVolumeClaim"]["claimName"] == place.claim
        assert mounts["/login"]["secret"]["secretName"] == SECRET
        assert variables["TINY_PACE"]["value"] == f"{FOLDER}/{SET}/pace"
        word = variables["WORD"]["valueFrom"]["secretKeyRef"]
        assert (word["name"], word["key"]) == (SECRET, "word")
        assert not [each for each in variables if each.startswith(("KFP_", "ARGO_"))]
        assert container["resources"] == MEMORY
        assert spec["serviceAccountName"] == ACCOUNT
        assert spec["imagePullSecrets"] == [{"name": REGISTRY}]
    run.until_said("the job's pods get, as this step has it: worker_resource_request=")
    (place.folder / SET / "pace").write_text("")
    assert run.ends() == "SUCCEEDED", run.report()
    run.assert_each_record_is_done_once()
    made = place.folder / "elasticdl" / job_name(run.run_id) / "model" / "model.keras"
    assert made.exists(), "the volume that was mounted on the task is where the model stays"


def test_a_retried_run_that_fails_again_leaves_nothing_though_its_clean_up_does_not_run_again(
    started: Mapping[str, TrainingRun],
) -> None:
    run = started[FAILED]
    assert run.ends() == "FAILED", run.report()
    run.until_nothing_is_left(GONE_SECONDS)
    before = run.step_uids()
    run.retry()
    run.until_again(before, r"this run's exit handler has run before, .*: the job is removed")
    assert run.ends() == "FAILED", run.report()
    assert run.left() == [], run.report()
