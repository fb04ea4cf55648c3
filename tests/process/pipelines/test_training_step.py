"""The training step under kfp.local: failing (P8), killed (P9), stopped, and what it leaves (P16)."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

import pytest

from elastic_runtime.steps.clean_up import clean_up
from tests.process.job.harness import write_data
from tests.process.pipelines.step_run import MakeStep, StepRun

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def said(run: StepRun) -> list[str]:
    """What the step itself printed, at its last attempt."""
    streamed = re.findall(r"'train'\S*\n.*?Streamed logs:\n(.*?)\n\S+ - \w+ - Task", run.text(), re.DOTALL)
    return [line.strip() for line in streamed[-1].splitlines() if line.strip()]


def test_p9_killed_again_and_again_the_step_goes_on_with_its_job_and_its_pods(
    make_step: MakeStep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Argo is told all along how far it is."""
    progress = tmp_path / "progress"
    monkeypatch.setenv("ARGO_PROGRESS_FILE", str(progress))
    run = make_step(retries=2, num_workers=2, num_epochs=2)
    run.pace(0.02)
    run.start().until_training(workers=2)
    run.until_done(100)
    before, first = run.pids(), run.step()

    run.kill_step()
    run.until(lambda: run.step() != first, "the step is run again")
    run.until_said(r"goes on where it was left: (\d+) records done")
    assert run.pids() == before, "workers and parameter servers were started again"
    run.until(lambda: 0 < int(progress.read_text().removesuffix("/2400\n")) < 2400, "Argo is told how far")
    run.until_done(run.status().records_done + 100)

    run.kill_step()
    run.kill("worker-0")
    run.hold()
    run.until_joined("worker-2")
    run.pace(0)
    summary = run.assert_right_end()
    assert run.text().count("is running already") == 3 + 2
    assert summary["epochs_done"] == 2
    assert progress.read_text() == "2400/2400\n"
    assert json.loads(run.artifact("metrics").read_text())["records"] == 2 * 1200
    assert (run.artifact("model") / "model.keras").is_file()


def test_p9_run_again_after_its_end_the_step_brings_the_same_model(
    make_step: MakeStep,
) -> None:
    run = make_step(num_workers=1, distribution_strategy="Local")
    run.start().assert_right_end()
    first = run.artifact("model")
    run.start().assert_right_end()
    assert run.artifact("model") != first
    assert (run.artifact("model") / "model.keras").read_bytes() == (first / "model.keras").read_bytes()
    assert "has succeeded already" in run.text()


def test_p8_a_failing_job_fails_its_step_with_the_reason_as_last_line(
    make_step: MakeStep, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "odd", odd=50)
    run = make_step(data, model="faulty", num_workers=1)
    run.start()
    assert run.ends() == 1
    last = said(run)[-1]
    assert last.startswith(f"error: job {run.name} failed: records ")
    assert "a sensor says 999" in last
    assert "faulty.py" in run.text(), "where it failed is not told"
    assert run.processes() == []


def test_p16_a_failed_step_leaves_report_metrics_and_pods(make_step: MakeStep, tmp_path: Path) -> None:
    data = write_data(tmp_path / "odd", odd=300)
    run = make_step(data, model="faulty", num_workers=1, shuffle_shards=False)
    run.start()
    assert run.ends() == 1
    assert "Training loss" in run.artifact("report").read_text()
    assert "failed" in run.artifact("pods").read_text()
    metrics = json.loads(run.artifact("metrics").read_text())
    assert 0 < metrics["records"] < 1200
    assert metrics["steps"] > 0


def test_p8_wrong_options_end_the_step_at_once_in_one_line(make_step: MakeStep) -> None:
    run = make_step(model_params="nonsense=1", model="absent")
    run.start()
    assert run.ends() == 1
    assert said(run)[-1].startswith("error: --model_def: 'absent.custom_model': there is no ")
    assert not [line for line in said(run) if "Traceback" in line]
    assert "absent" in run.artifact("report").read_text()


def test_p8_a_run_folder_that_cannot_be_written_is_refused(make_step: MakeStep) -> None:
    run = make_step(run_dir="/proc/runs")
    run.start()
    assert run.ends() == 1
    assert "run_dir=/proc/runs: cannot be used: No such file or directory" in said(run)[-1]


def test_a_step_told_to_end_drains_its_worker_and_says_so(make_step: MakeStep) -> None:
    run = make_step(num_workers=1, num_epochs=0)
    run.pace(0.005)
    run.start().until_training(workers=1)
    run.kill_step(signal.SIGTERM)
    assert run.ends() == 1
    assert run.processes() == []
    assert said(run)[-1].startswith(f"error: job {run.name} stopped: interrupted (SIGTERM)")
    assert run.pod_ends("worker-0") == ["drained"]


def test_a_step_that_vanished_leaves_nothing_behind_its_pipeline(make_step: MakeStep) -> None:
    run = make_step(num_workers=1, num_epochs=0)
    run.pace(0.01)
    run.start().until_training(workers=1)
    left = len(run.pids())
    run.kill_step()
    assert run.ends() == 1
    assert run.processes() == []
    assert f"{left} pods ended" in run.text()


def test_a_step_that_still_runs_is_ended_with_all_it_has_started(make_step: MakeStep) -> None:
    run = make_step(num_workers=1, num_epochs=0)
    run.pace(0.005)
    run.start().until_training(workers=1)
    assert clean_up(job_name=run.name, run_dir=str(run.folder))[0] == "master"
    assert run.processes() == []
    assert run.ends() == 1
    assert clean_up(job_name=run.name, run_dir=str(run.folder), remove_files=True) == []
    assert not run.folder.exists()


def test_outputs_that_cannot_be_written_do_not_end_the_job(make_step: MakeStep) -> None:
    run = make_step(num_workers=1, distribution_strategy="Local", num_epochs=2)
    run.pace(0.03)
    run.start().until_training(workers=1)
    pods = run.artifact("pods")
    pods.unlink()
    (pods / "in the way").mkdir(parents=True)
    run.until_said("the step's outputs could not be written")
    shutil.rmtree(pods)
    run.pace(0)
    run.assert_right_end()
    assert "finished its work" in pods.read_text()
