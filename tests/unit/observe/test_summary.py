from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_runs import RUNS, failure, mnist, not_a_number, running

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe.history import History
from elastic_runtime.observe.outcome import write_outcome
from elastic_runtime.observe.recorder import Recorder
from elastic_runtime.observe.summary import Summary, read_summary, summarize, verdict, write_summary


def test_verdict_of_a_job_that_succeeded() -> None:
    summary = Summary(
        job="mnist",
        status="succeeded",
        epochs=2,
        records=12_000,
        records_done=12_000,
        wall_seconds=41.2,
        final_metrics={"accuracy": 0.97412},
        relaunches={"preempted": 1},
        workers_relaunched=1,
        records_retrained=128,
    )
    assert verdict(summary) == (
        "job mnist succeeded: 12 000 records in 2 epochs, 41 s, accuracy 0.974, 1 worker relaunched, "
        "128 records trained again"
    )


def test_verdict_of_a_job_that_ended_at_its_maximal_step_says_how_much_of_the_data_that_was() -> None:
    summary = Summary(job="j", status="succeeded", epochs=4, records=4800, records_done=944, wall_seconds=24)
    assert verdict(summary) == "job j succeeded: 944 of 4 800 records, 24 s"


def test_verdict_of_a_job_that_failed_names_the_error_first() -> None:
    assert verdict(summarize(History.of(failure()))) == (
        "job heart failed: heart.py:41: KeyError: 'thal' (records 256-320 of /data/heart/data-00000, "
        "attempt 3 of 3) (600 of 3 000 records, 15 s)"
    )


def test_verdict_of_a_job_that_was_stopped_says_how_far_it_came() -> None:
    stopped = replace(summarize(History.of(running())), status="stopped")
    assert verdict(stopped).startswith("job mnist stopped: 5 0")
    assert " of 12 000 records, 30 s, accuracy 0.890" in verdict(stopped)
    assert verdict(stopped).endswith("64 records trained again, last checkpoint at version 200")


@pytest.mark.parametrize("run", RUNS)
def test_verdict_is_one_line_and_summary_comes_back_from_its_file(run: str, tmp_path: Path) -> None:
    summary = summarize(History.of(RUNS[run]()), model="m")
    assert "\n" not in verdict(summary)
    write_summary(summary, tmp_path / "summary.json")
    assert repr(read_summary(tmp_path / "summary.json")) == repr(summary)


def test_error_of_many_lines_becomes_one() -> None:
    history = History.of(failure())
    history.error = "Traceback:\n  line 1\n\nKeyError"
    assert summarize(history).error == "Traceback: line 1 KeyError"


def test_file_is_strict_json_with_the_promised_keys(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_summary(summarize(History.of(not_a_number())), path)
    raw = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert raw["status"] == "stopped"
    assert raw["evaluations"][1] == {"version": 200, "metrics": {"accuracy": None}}
    assert {
        "records_done",
        "records_retrained",
        "relaunches",
        "wall_seconds",
        "goodput",
        "final_metrics",
    } <= raw.keys()
    assert {"python", "numpy", "grpcio"} <= raw["versions"].keys()
    assert raw["machine"]["cores"] >= 1


def test_writer_killed_in_the_middle_leaves_the_old_summary(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    old = Summary(job="old", status="running")
    write_summary(old, path)
    killed = """
import os, signal, sys
from pathlib import Path
from elastic_runtime.observe.summary import Summary, write_summary
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
write_summary(Summary(job="new", status="succeeded"), Path(sys.argv[1]))
"""
    writer = subprocess.run([sys.executable, "-c", killed, path], check=False)
    assert writer.returncode == -signal.SIGKILL
    assert read_summary(path) == old
    write_summary(replace(old, job="next"), path)
    assert [file.name for file in tmp_path.iterdir()] == ["summary.json"]


def test_failed_write_leaves_no_unfinished_file(tmp_path: Path) -> None:
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_summary(Summary(job="j", status="failed"), tmp_path / "summary.json")
    assert os.listdir(tmp_path) == ["summary.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"job": 1, "evaluations": 3}', "\x00"])
def test_file_that_is_no_summary_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text)
    with pytest.raises(ElasticError, match=r"summary\.json: is not the summary of a job"):
        read_summary(path)


def test_goodput_leaves_out_start_recovery_and_what_was_done_twice() -> None:
    summary = summarize(History.of(mnist()))
    training = History.of(mnist()).last_sample
    assert training is not None
    share = training.training_seconds / 68 * 12_000 / 12_704
    assert math.isclose(summary.goodput, share, abs_tol=1e-4)


def test_outcome_is_written_from_the_events_of_a_dead_master(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for event in running():
            recorder.record(event)
    summary = write_outcome(tmp_path)
    assert (summary.status, summary.job) == ("running", "mnist")
    assert {"events.jsonl", "summary.json", "report.html"} == set(os.listdir(tmp_path))
