from __future__ import annotations

from pathlib import Path

from made_up_runs import mnist, week

from elastic_runtime.observe.events import (
    Event,
    JobEnded,
    JobStarted,
    PodEnded,
    PodRunning,
    PodStarted,
    Sample,
    read_events,
)
from elastic_runtime.observe.history import History
from elastic_runtime.observe.recorder import Recorder


def test_replacement_of_the_same_name_is_another_life() -> None:
    lives = [(p.cause, p.because) for p in History.of(mnist()).pods if p.role == "ps"]
    assert lives == [("error", ""), ("completed", "error")]


def test_relaunches_are_counted_by_what_ended_the_one_before() -> None:
    assert History.of(mnist()).relaunches == {"preempted": 1, "error": 1, "out_of_memory": 1}


def test_records_trained_again_are_those_of_lost_shards_and_of_a_model_that_went_back() -> None:
    assert History.of(mnist()).records_retrained == 64 + 128 + 512


def test_workers_are_counted_from_running_to_end() -> None:
    history = History.of(
        [
            PodStarted(time=1.0, pod="w0", role="worker"),
            PodStarted(time=1.0, pod="w1", role="worker"),
            PodRunning(time=2.0, pod="w0", role="worker"),
            PodRunning(time=3.0, pod="w1", role="worker"),
            PodRunning(time=3.0, pod="ps", role="ps"),
            PodEnded(time=4.0, pod="w0", role="worker", cause="preempted"),
        ]
    )
    assert history.worker_steps() == [(2.0, 1), (3.0, 2), (4.0, 1)]


def test_adopted_pod_lives_on_and_one_started_again_unseen_had_ended() -> None:
    before: list[Event] = [
        JobStarted(time=0.0, job="j"),
        *(PodStarted(time=1.0, pod=name, role="worker") for name in ("kept", "gone")),
        *(PodRunning(time=2.0, pod=name, role="worker") for name in ("kept", "gone")),
    ]
    after: list[Event] = [
        JobStarted(time=10.0, job="j", resumed=True),
        PodRunning(time=11.0, pod="kept", role="worker", adopted=True),
        PodStarted(time=12.0, pod="gone", role="worker", because="unknown"),
    ]
    history = History.of(before + after)
    assert [(p.name, p.state, p.cause) for p in history.pods] == [
        ("kept", "running", ""),
        ("gone", "ended", "unknown"),
        ("gone", "pending", ""),
    ]
    assert history.pods[0].running == 2.0
    assert history.restarts == [10.0]


def test_ended_job_that_is_taken_up_again_is_running() -> None:
    ended = [JobStarted(time=0.0, job="j"), JobEnded(time=5.0, status="stopped")]
    history = History.of([*ended, JobStarted(time=9.0, job="j", resumed=True)])
    assert (history.status, history.ended, history.begin) == ("running", None, 0.0)


def test_successor_of_a_master_goes_on_with_its_story(tmp_path: Path) -> None:
    events = mnist()
    with Recorder(tmp_path) as first:
        for event in events[:150]:
            first.record(event)
    with Recorder(tmp_path) as second:
        for event in events[150:]:
            second.record(event)
    whole, told = History.of(events), second.history
    assert (told.status, told.relaunches, told.seconds) == ("succeeded", whole.relaunches, whole.seconds)
    assert told.records_retrained == whole.records_retrained
    assert told.last_sample == whole.last_sample


def test_listeners_hear_every_event_while_the_file_stays_small(tmp_path: Path) -> None:
    heard: list[Event] = []
    with Recorder(tmp_path, listeners=[heard.append]) as recorder:
        recorder.record(JobStarted(time=0.0, job="long"))
        for t in range(1, 30_001):
            recorder.record(Sample(time=float(t), records_done=t, loss=1.0))
            assert recorder.history.records_done == t
    assert len(heard) == 30_001
    assert len(read_events(tmp_path / "events.jsonl")) < 4_000


def test_samples_held_back_are_written_before_the_job_ends(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    for event in (
        *(Sample(time=t + 1e6 * (t > 0), records_done=t) for t in range(50)),
        JobEnded(time=2e6, status="stopped"),
    ):
        recorder.record(event)
    events = read_events(tmp_path / "events.jsonl")
    recorder.close()
    assert events[-2:] == [Sample(time=1e6 + 49, records_done=49), JobEnded(time=2e6, status="stopped")]


def test_story_of_a_week_has_every_pod() -> None:
    history = History.of(week())
    assert len(history.pods) == 2 + len(history.workers)
    assert all(pod.state == "ended" for pod in history.pods)
