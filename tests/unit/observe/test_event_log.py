from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import RUNS

from elastic_runtime.observe.events import (
    Evaluation,
    EventLog,
    JobEnded,
    PodEnded,
    Sample,
    from_json,
    read_events,
    to_json,
)

ENDED = JobEnded(time=2.0, status="failed", error="line one\nline two")


@pytest.mark.parametrize("run", RUNS)
def test_every_event_comes_back_from_its_line(run: str) -> None:
    for event in RUNS[run]():
        assert repr(from_json(to_json(event))) == repr(event)


def test_figures_that_are_no_numbers_come_back_and_the_line_is_strict_json() -> None:
    event = Evaluation(time=1.0, version=3, metrics={"a": math.nan, "b": math.inf, "c": -math.inf})
    line = to_json(event)
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    back = from_json(line)
    assert isinstance(back, Evaluation)
    assert math.isnan(back.metrics["a"])
    assert (back.metrics["b"], back.metrics["c"]) == (math.inf, -math.inf)


def test_torn_last_line_is_passed_over_at_every_cut(tmp_path: Path) -> None:
    first, last = Sample(time=1.0, records_done=5, loss=0.5), ENDED
    whole = f"{to_json(first)}\n{to_json(last)}".encode()
    path = tmp_path / "events.jsonl"
    for cut in range(len(to_json(first)), len(whole)):
        path.write_bytes(whole[:cut])
        assert read_events(path) == [first]
    path.write_bytes(whole)
    assert read_events(path) == [first, last]


def test_successor_appends_after_a_torn_line_without_spoiling_its_own(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.jsonl"
    with EventLog(path) as log:
        log.append(Sample(time=1.0, records_done=5))
    with path.open("ab") as file:
        file.write(b'{"time": 1.5, "kind": "job_en')
    with EventLog(path) as log:
        log.append(ENDED)
    assert read_events(path) == [Sample(time=1.0, records_done=5), ENDED]


@pytest.mark.parametrize(
    "line",
    [
        '{"time": 1, "kind": "of_the_future", "x": 1}',
        '{"time": "soon", "kind": "job_ended", "status": "failed"}',
        '{"time": NaN, "kind": "job_ended", "status": "failed"}',
        '{"time": 1e300, "kind": "job_ended", "status": "failed"}',
        '{"time": 1, "kind": "job_ended"}',
        '{"time": 1, "kind": "job_ended", "status": 7}',
        '{"time": 1, "kind": "sample", "records_done": true}',
        '{"time": 1, "kind": "sample", "records_done": 99999999999999999999}',
        '{"time": 1, "kind": "evaluation", "version": 1, "metrics": {"a": []}}',
        '{"time": 1, "kind": ["job_ended"], "status": "x"}',
        "[1]",
        "17",
        "",
        "[" * 100_000,
    ],
)
def test_line_that_is_no_event_of_ours_is_passed_over(line: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(f"{line}\n{to_json(ENDED)}\n")
    assert read_events(path) == [ENDED]


def test_fields_of_a_newer_version_are_passed_over() -> None:
    assert from_json(to_json(ENDED)[:-1] + ', "colour": "red"}') == ENDED


@given(st.binary())
def test_no_bytes_make_reading_fail(line: bytes) -> None:
    from_json(line)


def test_full_disk_is_said_once_and_costs_the_job_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), EventLog(Path("/dev/full")) as log:
        log.append(ENDED)
        log.append(ENDED)
    assert [r.getMessage() for r in caplog.records] == [
        "/dev/full: cannot record events: No space left on device"
    ]


def test_missing_file_has_no_events(tmp_path: Path) -> None:
    assert read_events(tmp_path / "none") == []


def test_line_names_its_kind_in_words() -> None:
    event = PodEnded(time=1.0, pod="p", role="worker", cause="preempted", exit_code=None)
    assert json.loads(to_json(event))["kind"] == "pod_ended"
