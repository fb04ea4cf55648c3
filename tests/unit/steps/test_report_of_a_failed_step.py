"""What is left of a step that failed or was stopped: KFP takes no outputs of it, Argo those of then."""

import json
import logging
import os
import re
import threading

import fsspec
import pytest

from elastic_runtime.data import storage
from elastic_runtime.errors import ElasticError
from elastic_runtime.observe.live_state import LiveState
from elastic_runtime.observe.outcome import REPORT_NAME
from elastic_runtime.observe.summary import FILE_NAME, Summary, write_summary
from elastic_runtime.platform.pods import EXIT_DRAINED
from elastic_runtime.spec.arguments import parse
from elastic_runtime.steps import Folder, job_outputs, stored
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


def test_a_step_that_cannot_reach_the_store_does_not_try_and_says_what_would_let_it_in(
    outputs, monkeypatch, caplog
):
    for name in filter(re.compile(CREDENTIALS).fullmatch, list(os.environ)):
        monkeypatch.delenv(name)
    with pytest.raises(ElasticError, match="no"):
        outputs.end(1)
    assert kept() is None
    lost = "gone with this step's pod: its report; `open_store(task)`"
    assert any(said.startswith(lost) for said in caplog.messages)
    assert not caplog.clear()
    outputs.could_not_run(ElasticError("before it began"))
    assert not caplog.messages


def test_a_store_that_workload_identity_may_open_is_tried_without_any_variable(
    tmp_path, outputs, monkeypatch, caplog
):
    for name in filter(re.compile(CREDENTIALS).fullmatch, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setattr(storage, "put_file", lambda file, uri: None)
    page = Folder(str(tmp_path / "report"), uri="gs://bucket/run/report")
    (tmp_path / "report").write_text("curves")
    stored.Stored({"report": page}).put()
    assert "its report is kept: gs://bucket/run/report" in caplog.messages


def test_outputs_that_cannot_be_written_change_nothing_of_the_verdict(tmp_path, outputs, caplog):
    (tmp_path / "pods").mkdir()  # where a file is to be
    for code in (1, EXIT_DRAINED):
        with pytest.raises(ElasticError, match="job j failed: no") as ended:
            outputs.end(code)
        assert ended.value.exit_code == code
    assert any("outputs could not be written" in message for message in caplog.messages)


def test_a_store_that_refuses_changes_nothing_of_the_verdict(outputs, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError("not you")

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store")
    monkeypatch.setattr(fsspec.filesystem("memory"), "put_file", refuse)
    with pytest.raises(ElasticError, match="no"):
        outputs.end(1)
    assert any("its report is not kept" in message for message in caplog.messages)


def test_the_log_says_where_a_report_is_that_stays_on_this_machine(tmp_path, outputs, caplog):
    outputs._report.uri = str(tmp_path / "report")
    with pytest.raises(ElasticError, match="no"):
        outputs.end(1)
    assert f"its report is the step's output report, {tmp_path / 'report'}" in caplog.messages


@pytest.mark.parametrize(
    ("goes_on", "said"),
    [
        (False, "the step was told to end: job j stopped: "),
        (True, "the step was told to end, and goes on with its job when it is run again: job j stopped: "),
    ],
)
def test_a_step_that_was_told_to_end_says_whether_that_was_all(tmp_path, outputs, goes_on, said):
    write_summary(Summary(job="j", status="stopped"), tmp_path / "runs" / "j" / FILE_NAME)
    with pytest.raises(ElasticError) as ended:
        outputs.end(EXIT_DRAINED, goes_on=goes_on)
    assert str(ended.value).startswith(said)
    assert ended.value.exit_code == EXIT_DRAINED


def test_outputs_have_what_the_log_has_said_and_what_is_said_last(tmp_path, outputs, caplog, monkeypatch):
    """An engine that stops a step takes them about a second later."""

    def shown(records, message=""):
        write_summary(
            Summary(job="j", status="running", records_done=records), tmp_path / "runs" / "j" / FILE_NAME
        )
        outputs.show(LiveState(records_done=records, message=message))
        return json.loads((tmp_path / "metrics").read_text())["records"]

    with monkeypatch.context() as often:
        often.setattr(job_outputs, "LINE_SECONDS", 0.0)
        for records in (3, 4):
            assert shown(records) == records
            assert caplog.messages[-1].startswith(f"{records} records")
    assert shown(5) == 5
    assert shown(6) == 5, "not each second"
    assert shown(7, "SIGTERM") == 7


def test_a_store_that_does_not_answer_holds_up_neither_the_job_nor_what_is_written_here(
    tmp_path, outputs, monkeypatch
):
    asked, answers, copied = threading.Event(), threading.Event(), []

    def slowly(_, file, *__):
        asked.set()
        answers.wait(20)
        copied.append(file)

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store")
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "put_file", slowly)
    try:
        outputs.show(LiveState())
        assert asked.wait(60)
        (tmp_path / "runs" / "j" / REPORT_NAME).write_text("later curves")
        outputs.show(LiveState(message="news"))
        assert (tmp_path / "report").read_text() == "later curves"
        assert not copied
    finally:
        answers.set()
        outputs._stored.close()
