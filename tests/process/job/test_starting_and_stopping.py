"""One job's life between its commands: interrupted, gone on with, refused, begun anew, stopped, abandoned."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from harness import MakeRun

from elastic_runtime.observe import events

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_interrupted_once_a_job_saves_and_the_same_command_goes_on_to_an_exact_end(make_run: MakeRun) -> None:
    run = make_run("--num_workers=1", "--num_epochs=2", "--checkpoint_steps=1000")
    run.pace(0.01)
    run.start().until_training(workers=1)
    run.until_done(100)
    run.hold()
    refused = run.again()
    assert refused.returncode == 2
    assert "is run by process" in refused.stderr

    run.pace(0.01)
    run.send(signal.SIGINT)
    stopped = run.assert_right_end(130, "stopped", exact=False)
    assert stopped["last_checkpoint"] == stopped["version"] > 0
    assert all(event.cause in {"drained", "completed"} for event in run.events(events.PodEnded))
    done = stopped["records_done"]
    assert 100 <= done < 2400

    other = run.again("--minibatch_size=8")
    assert other.returncode == 2
    assert "--minibatch_size=16 became 8" in other.stderr

    run.pace(0)
    run.start()
    summary = run.assert_right_end()
    assert f"goes on where it was left: {done} records done" in run.text()
    assert f"version {stopped['version']}, 0 records are trained again" in run.text()
    assert summary["records_retrained"] <= stopped["records_retrained"]

    again = run.again()
    assert again.returncode == 0
    assert "has succeeded already" in again.stderr

    assert json.loads(run.job("ledger", "--json").stdout) == run.ledger()
    run.start("--restart")
    assert run.assert_right_end()["records_retrained"] == 0
    assert len(re.findall(r"\] pod \S+-worker-\d+ runs ", run.text())) == 3


def test_interrupted_twice_a_job_stops_at_once(make_run: MakeRun) -> None:
    run = make_run("--num_workers=1")
    run.pace(0.2)
    run.start().until_training(workers=1)
    run.hold()  # so that it has not stopped yet at the second time
    run.send(signal.SIGINT)
    run.until_said("stopping: interrupted")
    run.send(signal.SIGINT)
    run.assert_right_end(130, "stopped", exact=False)


def test_a_job_abandoned_by_its_master_ends_and_a_drained_worker_costs_nothing(make_run: MakeRun) -> None:
    run = make_run(
        "--num_workers=1", "--orphan_timeout=12", "--relaunch_on_worker_failure=0", "--num_epochs=0"
    )
    run.pace(0.01)
    run.start().until_training(workers=1)
    run.until_done(128)

    run.kill("worker-0", number=signal.SIGTERM)
    run.until(lambda: run.pod_ends("worker-0"), "worker 0 is drained")
    assert run.pod_ends("worker-0") == ["drained"]
    run.until_joined("worker-1")
    given_back = [event for event in run.events(events.ShardRequeued) if event.worker.endswith("worker-0")]
    assert given_back
    assert any(event.reason == "given back" for event in given_back)
    assert [event for event in given_back if event.records] == [], "the shard in hand was finished"

    run.kill_master()
    run.until_gone(300)

    run.start().until(run.members, "a worker has joined")
    stopped = run.job("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped" in stopped.stdout
    run.assert_right_end(130, "stopped", exact=False)

    run.start().until(run.members, "a worker has joined")
    refused = run.job("clean")
    assert refused.returncode == 1
    assert "is alive" in refused.stderr
    cleaned = run.job("clean", "--force", "--grace=5")
    assert cleaned.returncode == 0, cleaned.stderr
    assert run.processes() == []
    assert not run.folder.exists()


def test_a_master_killed_when_all_is_done_leaves_a_job_that_the_same_command_ends_well(
    make_run: MakeRun,
) -> None:
    run = make_run("--num_workers=1", "--checkpoint_steps=1000")
    run.start()
    run.until_done(1200)
    run.kill_master()
    run.start()
    summary = run.assert_right_end()
    assert summary["records_retrained"] == 0
    run.until_gone(10)


def test_a_job_stopped_while_its_workers_still_start_ends_at_once(make_run: MakeRun) -> None:
    run = make_run("--num_workers=1")
    run.start().until(lambda: len(run.pids()) == 2, "all pods have been started")
    assert run.job("stop").returncode == 0
    run.assert_right_end(130, "stopped", exact=False)
    assert run.pod_ends("worker-0") in ([], ["drained"], ["completed"])


def test_a_folder_of_checkpoints_has_one_living_job_and_remembers_whose_each_is(
    make_run: MakeRun, tmp_path: Path
) -> None:
    shared = f"--checkpoint_dir={tmp_path / 'shared'}"
    options = ("--num_workers=1", "--checkpoint_steps=10", "--keep_checkpoint_max=1", shared)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first = make_run(*options, folder=tmp_path / "one")
    first.pace(0.02)
    first.start().until_said("checkpoint version-10 saved")
    first.hold()
    second = make_run(*options, "--num_epochs=2", folder=tmp_path / "two")
    refused = second.again()
    assert refused.returncode == 2
    assert f"job {first.name!r} is run by process" in refused.stderr
    assert not second.folder.exists()
    first.pace(0)
    last = first.assert_right_end()["last_checkpoint"]
    second.start()
    second.assert_right_end()
    kept = {path.name for path in (tmp_path / "shared").glob("version-*")}
    assert f"version-{last}" in kept
    assert len(kept) == 2


def test_a_misspelt_name_of_the_model_is_refused_before_anything_is_started(make_run: MakeRun) -> None:
    run = make_run("--feed=fed")
    refused = run.again()
    assert refused.returncode == 2
    assert "--feed: no fed in" in refused.stderr
    assert not run.folder.exists()
