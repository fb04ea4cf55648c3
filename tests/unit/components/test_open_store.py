"""`open_store` opens what is under `minio://`, and leaves `s3://` as it is unless it is told of a store."""

from typing import Any

import pytest
import yaml
from kfp import dsl

from components.store import open_store
from elasticdl_components import train
from pipelines.cifar10_allreduce import cifar10
from pipelines.mnist import mnist
from pipelines.packages.kfp import KfpPackage

KEYS = {"FSSPEC_MINIO_KEY": "accesskey", "FSSPEC_MINIO_SECRET": "secretkey"}
OF_S3 = {"AWS_ACCESS_KEY_ID": "accesskey", "AWS_SECRET_ACCESS_KEY": "secretkey"}


@dsl.pipeline(name="elsewhere")
def elsewhere() -> None:
    trained = train(model_def="a.b", training_data="s3://bucket/data", image_name="registry/model:1")
    open_store(trained, endpoint="http://store.example:9000", secret="mine")


def set_on_the_training(pipeline: Any) -> tuple[dict[str, str], dict[str, str], set[str]]:
    """Variables with their values, those of a secret with its keys, and the secrets."""
    spec, platforms = yaml.safe_load_all(KfpPackage(pipeline).text())
    container = spec["deploymentSpec"]["executors"]["exec-train"]["container"]
    given = platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-train"]["secretAsEnv"]
    keys = {key["envVar"]: key["secretKey"] for each in given for key in each["keyToEnv"]}
    assert all(each["optional"] for each in given)
    secrets = {each["secretNameParameter"]["runtimeValue"]["constant"] for each in given}
    return {each["name"]: each["value"] for each in container["env"]}, keys, secrets


@pytest.mark.parametrize("pipeline", [mnist, cifar10], ids=lambda pipeline: pipeline.name)
def test_workers_whose_artifacts_are_in_a_store_of_s3_are_not_sent_to_kfps_own(pipeline: Any) -> None:
    variables, keys, secrets = set_on_the_training(pipeline)
    assert variables == {"FSSPEC_MINIO_ENDPOINT_URL": "http://minio-service.kubeflow:9000"}
    assert (keys, secrets) == (KEYS, {"mlpipeline-minio-artifact"})


def test_a_store_that_is_named_is_for_s3_as_well() -> None:
    variables, keys, secrets = set_on_the_training(elsewhere)
    assert {*variables} == {"FSSPEC_MINIO_ENDPOINT_URL", "AWS_ENDPOINT_URL"}
    assert {*variables.values()} == {"http://store.example:9000"}
    assert (keys, secrets) == (KEYS | OF_S3, {"mine"})
