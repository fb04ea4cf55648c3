"""Pods without any volume, whose data and model are in an S3 store: they reach it with what the step has, and
no pod's specification says what that is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import RIGHTS
from tests.cluster.jobs import RESOURCES, bound
from tests.cluster.kit import builder, s3
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace
from tests.cluster.test_step_as_master import MORE_RIGHTS, StepPod

SECONDS = 900.0
pytestmark = pytest.mark.timeout(3600)  # the first time an image is built


@pytest.fixture
def store(cluster: Cluster) -> s3.Store:
    return s3.started(cluster)


@pytest.fixture
def step(cluster: Cluster, store: s3.Store, namespace: Namespace, tmp_path: Path) -> Iterator[StepPod]:
    for rights in (RIGHTS, MORE_RIGHTS):
        namespace.kubectl("apply", "-f", rights)
    image = builder.push(cluster, "pipelines")
    store.configure(namespace)
    made = StepPod(namespace, tmp_path / "job", image, AWS_ENDPOINT_URL=f"http://{store.address}")
    made.env += [{"name": name, "valueFrom": reference(name)} for name in s3.CREDENTIALS]
    (made.folder / "out").mkdir()
    for place in (made.folder, made.folder / "out"):
        place.chmod(0o777)
    yield made
    made.close()


def reference(key: str) -> dict[str, object]:
    """What a pod's specification has in the place of the secret itself."""
    return {"secretKeyRef": {"name": s3.SECRET, "key": key}}


def test_workers_read_their_shards_from_the_store_and_one_writes_the_model_there(
    step: StepPod, store: s3.Store
) -> None:
    place = f"{step.namespace.name}/digits"
    converting = step.attempt(
        "convert",
        *("--format=mnist", f"--output=s3://{store.bucket}/{place}"),
        *("--dataset=/job/out/dataset", "--samples=/job/out/samples"),
    )
    assert step.exit_code(converting, SECONDS) == 0, step.log(converting)
    assert store.keys(f"{place}/train/")

    training = step.attempt(
        "train",
        *("--job_name=s", f"--image_name={step.image}", "--image_pull_policy=IfNotPresent"),
        *(f"--{name}=/job/out/{name}" for name in ("model", "metrics", "report", "pods")),
        *("--model_zoo=/model_zoo", "--model_def=mnist.mnist_functional_api.custom_model"),
        *("--training_dataset=/job/out/dataset", "--training_split=train", "--validation_split=test"),
        *(f"--output=s3://{store.bucket}/{step.namespace.name}/model", "--num_workers=2"),
        *("--minibatch_size=64", "--num_minibatches_per_task=8"),
        *(word for word in bound(RESOURCES) if not word.startswith("--master")),
    )
    worker = step.until_pod(training, lambda: step.pods().get("worker-0"), "it has a worker", SECONDS)
    [container] = worker.spec.containers
    given = {each.name: each for each in container.env}
    for name in s3.CREDENTIALS:
        assert given[name].value is None
        assert given[name].value_from.secret_key_ref.to_dict() == {
            "name": s3.SECRET,
            "key": name,
            "optional": None,
        }
    assert step.exit_code(training, SECONDS) == 0, f"{step.log(training)}\n{step.report()}"
    assert json.loads((step.folder / "out" / "metrics").read_text())["records"] == 6000
    assert f"{step.namespace.name}/model/model.keras" in store.keys(f"{step.namespace.name}/model/")
    delivered = step.folder / "out" / "model"
    assert (delivered / "model.keras").stat().st_size == len(
        store.read(f"{step.namespace.name}/model/model.keras")
    )
    assert (delivered / "saved_model" / "saved_model.pb").is_file()
