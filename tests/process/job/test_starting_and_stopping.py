"""One job's life between its commands: interrupted, gone on with, refused, begun anew, stopped, abandoned."""

from __future__ import annotations

import re
import signal

import pytest
from conftest import MakeRun

from elastic_runtime.observe import events

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_interrupted_once_a_job_saves_and_the_same_command_goes_on_to_an_exact_end(make_run: MakeRun) -> None:
    run = make_run("--num_workers=2", "--num_epochs=2", "--checkpoint_steps=1000")
    run.pace(0.02)
    run.start().until_training(workers=2)
    run.until_done(100)
    refused = run.again()
    assert refused.returncode == 2
    assert "is run by process" in refused.stderr

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

    run.start("--restart")
    assert run.assert_right_end()["records_retrained"] == 0
    assert len(re.findall(r"\] worker \S+ joined", run.text())) == 2 * 3


def test_interrupted_twice_a_job_stops_at_once(make_run: MakeRun) -> None:
    run = make_run("--num_workers=1")
    run.pace(0.2)
    run.start().until_training(workers=1)
    run.send(signal.SIGINT)
    run.until_said("stopping: interrupted")
    run.send(signal.SIGINT)
    assert run.ends(20) == 130
    run.assert_right_end(130, "stopped", exact=False)


def test_a_job_abandoned_by_its_master_ends_and_a_drained_worker_costs_nothing(make_run: MakeRun) -> None:
    run = make_run("--num_workers=2", "--orphan_timeout=4", "--relaunch_on_worker_failure=0")
    run.pace(0.01)
    run.start().until_training(workers=2)

    run.kill("worker-1", number=signal.SIGTERM)
    run.until(lambda: run.pod_ends("worker-1"), "worker 1 is drained")
    assert run.pod_ends("worker-1") == ["drained"]
    run.until_joined("worker-2")
    given_back = [event for event in run.events(events.ShardRequeued) if event.worker.endswith("worker-1")]
    assert given_back
    assert all(event.reason == "given back" for event in given_back)

    run.kill_master()
    run.until_gone(30)

    run.start()
    run.until_training(workers=2)
    stopped = run.job("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped" in stopped.stdout
    run.assert_right_end(130, "stopped", exact=False)

    run.start().until_training(workers=2)
    refused = run.job("clean")
    assert refused.returncode == 1
    assert "is alive" in refused.stderr
    cleaned = run.job("clean", "--force", "--grace=5")
    assert cleaned.returncode == 0, cleaned.stderr
    assert run.processes() == []
    assert not run.folder.exists()
