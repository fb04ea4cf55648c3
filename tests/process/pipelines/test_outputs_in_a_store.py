"""Report, table of pods and metrics of a step that never came to its end are in the store of its outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import s3fs

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe.live_state import LiveState
from elastic_runtime.observe.outcome import REPORT_NAME
from elastic_runtime.observe.summary import FILE_NAME, Summary, write_summary
from elastic_runtime.spec.arguments import parse
from elastic_runtime.steps import Folder, stored
from elastic_runtime.steps.job_outputs import JobOutputs

pytestmark = pytest.mark.timeout(600)
LOOKED_AT = ("report", "pods", "metrics")


class Step:
    """Whose outputs KFP will put into the bucket, once it has succeeded."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "run"
        made = {n: Folder(str(folder / n), uri=f"minio://bucket/run/{n}") for n in ("model", *LOOKED_AT)}
        self.outputs = JobOutputs(**made)
        given = [f"--run_dir={self.run}", "--model_def=m", "--training_data=d", "--model_zoo=."]
        self.outputs.begin(parse("train", ["--job_name=j", *given]).spec)

    def come_to(self, records: int, message: str = "") -> None:
        """The master shows where it stands."""
        summary = Summary(job="j", status="running", records_done=records)
        write_summary(summary, self.run / FILE_NAME)
        (self.run / REPORT_NAME).write_text(f"curves of {records}")
        self.outputs.show(LiveState(records_done=records, message=message))


def kept(bucket: s3fs.S3FileSystem) -> dict[str, str]:
    names = [path.rpartition("/")[2] for path in bucket.find("bucket/run")]
    return {name: bucket.cat(f"bucket/run/{name}").decode() for name in names}


def test_a_step_that_is_killed_has_them_there(bucket: s3fs.S3FileSystem, tmp_path: Path) -> None:
    step = Step(tmp_path)
    step.come_to(3)
    step.outputs._stored.close()  # as far as it is within a moment
    found = kept(bucket)
    assert sorted(found) == sorted(LOOKED_AT)
    assert found["report"] == "curves of 3"
    assert json.loads(found["metrics"])["records"] == 3


def test_they_are_renewed_now_and_then_and_are_at_last_what_the_job_came_to(
    bucket: s3fs.S3FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step(tmp_path)
    for records in (3, 4):
        step.come_to(records, message=f"{records}")
        step.outputs._stored.close()
    assert kept(bucket)["report"] == "curves of 3", "each second is too often"
    with monkeypatch.context() as often:
        often.setattr(stored, "SECONDS", 0.0)
        step.outputs._stored._next = 0.0
        step.come_to(5, message="5")
        step.outputs._stored.close()
    assert kept(bucket)["report"] == "curves of 5"
    (step.run / REPORT_NAME).write_text("all curves")
    with pytest.raises(ElasticError):
        step.outputs.end(1)
    found = kept(bucket)
    assert found["report"] == "all curves"
    assert found["pods"].startswith("job j running: 5 records")


def test_what_was_wrong_from_the_beginning_is_there_too(bucket: s3fs.S3FileSystem, tmp_path: Path) -> None:
    Step(tmp_path).outputs.could_not_run(ElasticError("there are no records"))
    assert "there are no records" in kept(bucket)["report"]
