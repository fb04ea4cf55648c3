"""KFP fails a step at its end whose artifact lies in a store elsewhere than KFP has said."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.steps import Folder
from elastic_runtime.steps.artifact import refuse_what_kfp_does_not_find
from elastic_runtime.steps.convert import convert
from elastic_runtime.steps.in_cluster import refuse_what_pods_do_not_see
from elastic_runtime.steps.predict import predict

GIVEN = "minio://mlpipeline/v2/artifacts/run/convert/dataset"


@pytest.fixture(autouse=True)
def on_kfp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_KFP_RUNTIME", "true")


def artifact(folder: Path, uri: str = GIVEN) -> Folder:
    return Folder(str(folder / "made"), uri=uri)


@pytest.mark.parametrize("store", ["s3", "s3a", "gs", "gcs", "minio"])
def test_a_conversion_into_another_store_is_refused_before_any_work(tmp_path: Path, store: str) -> None:
    place = f"{store}://mine/digits"
    with pytest.raises(InputError, match=rf"output={place}: .* under {GIVEN} \(leave it out: .* volume\)"):
        convert(dataset=artifact(tmp_path), samples=artifact(tmp_path), source="/nowhere", output=place)


def test_predictions_for_another_store_are_refused_before_any_work(tmp_path: Path) -> None:
    none = Folder(str(tmp_path / "none"))
    with pytest.raises(InputError, match="output=s3://mine/found: Kubeflow Pipelines takes"):
        predict(model=none, dataset=none, predictions=artifact(tmp_path), output="s3://mine/found")


@pytest.mark.parametrize("place", ["", "/data/digits", "file:///data/digits", "memory://digits"])
def test_what_kfp_does_not_take_from_a_store_may_be_anywhere(tmp_path: Path, place: str) -> None:
    refuse_what_kfp_does_not_find(place, artifact(tmp_path))


def test_a_place_under_that_of_the_artifact_is_taken_and_one_beside_it_is_not(tmp_path: Path) -> None:
    own = artifact(tmp_path, "gs://bucket/run/dataset")
    for place in ("gs://bucket/run/dataset", "gs://bucket/run/dataset/", "gs://bucket/run/dataset/more"):
        refuse_what_kfp_does_not_find(place, own)
    with pytest.raises(InputError):
        refuse_what_kfp_does_not_find("gs://bucket/run/dataset-2", own)


def test_nobody_is_told_to_write_a_dataset_where_it_would_be_refused() -> None:
    with pytest.raises(InputError, match="on Kubeflow Pipelines by no output at all, on Argo by a URI"):
        refuse_what_pods_do_not_see("/tmp/digits", "", where="training_data")


def test_under_kfp_local_and_on_argo_a_store_is_a_place_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_what_kfp_does_not_find("s3://mine/digits", Folder(str(tmp_path)))
    monkeypatch.delenv("_KFP_RUNTIME")
    refuse_what_kfp_does_not_find("s3://mine/digits", artifact(tmp_path))
