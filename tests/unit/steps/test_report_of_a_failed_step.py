"""Where the report of a step is that failed: KFP takes no outputs of such a step."""

import logging
import os
import re

import fsspec
import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe.outcome import REPORT_NAME
from elastic_runtime.observe.summary import FILE_NAME, Summary, write_summary
from elastic_runtime.spec.arguments import parse
from elastic_runtime.steps import Folder
from elastic_runtime.steps.in_cluster import CREDENTIALS
from elastic_runtime.steps.job_outputs import JobOutputs

PLACE = "memory://bucket/run/report"


@pytest.fixture
def outputs(tmp_path, monkeypatch, caplog):
    """Of a training that has failed, as a step has them whose artifacts go to a store."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "j"
    given = ["--job_name=j", f"--run_dir={run}", "--model_def=m", "--training_data=d", "--model_zoo=."]
    made = {name: Folder(str(tmp_path / name)) for name in ("model", "metrics", "pods")}
    outputs = JobOutputs(**made, report=Folder(str(tmp_path / "report"), uri=PLACE))
    outputs.begin(parse("train", given).spec)
    write_summary(Summary(job="j", status="failed", error="no"), run / FILE_NAME)
    (run / REPORT_NAME).write_text("curves")
    caplog.set_level(logging.INFO)
    yield outputs
    fsspec.filesystem("memory").store.clear()


def kept():
    return fsspec.filesystem("memory").cat(PLACE) if fsspec.filesystem("memory").exists(PLACE) else None


def test_the_report_of_a_failed_step_that_can_reach_the_store_is_kept_and_the_log_says_where(
    outputs, monkeypatch, caplog
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store")
    with pytest.raises(ElasticError, match="no"):
        outputs.end(1)
    assert kept() == b"curves"
    assert f"its report is kept: {PLACE}" in caplog.messages


def test_a_step_that_cannot_reach_the_store_does_not_try(outputs, monkeypatch):
    for name in filter(re.compile(CREDENTIALS).fullmatch, list(os.environ)):
        monkeypatch.delenv(name)
    with pytest.raises(ElasticError, match="no"):
        outputs.end(1)
    assert kept() is None


def test_a_store_that_refuses_changes_nothing_of_the_verdict(outputs, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError("not you")

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store")
    monkeypatch.setattr(fsspec.filesystem("memory"), "put_file", refuse)
    with pytest.raises(ElasticError, match="no"):
        outputs.end(1)
    assert any("its report is not kept" in message for message in caplog.messages)
