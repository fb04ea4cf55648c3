"""The other ways to train, and what is done with a trained model; each survives what may befall it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import MakeRun, Run

from elastic_runtime.observe import events

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_a_local_job_survives_its_worker_before_and_after_a_checkpoint_and_its_model_is_used(
    make_run: MakeRun, data: Path, tmp_path: Path
) -> None:
    output = tmp_path / "model"
    run = make_run(
        *("--distribution_strategy=Local", "--checkpoint_steps=30", f"--output={output}", "--num_epochs=2"),
        *(f"--validation_data={data}", "--evaluation_steps=30"),
        model="normalized",
    )
    run.pace(0.05)  # of version 30 it is still far when it is killed
    run.start().until_training(workers=1)
    run.until_done(64)
    run.kill("worker-0")
    run.until_said(r"the model is back at its beginning .*: version 0, \d+ records are trained again")

    run.pace(0.01)
    run.until_said(r"checkpoint version-30 saved")
    run.kill("worker-1")
    run.until_said(r"the model is that of \S+/version-\d+: version \d+")
    run.pace(0)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 2}
    assert list(output.rglob("*.keras"))
    assert_evaluated_in_order(run, 30)
    newest = run.checkpoints / f"version-{summary['last_checkpoint']}"

    evaluated = use(
        make_run,
        tmp_path / "e",
        "evaluate",
        f"--validation_data={data}",
        checkpoint=newest,
        model="normalized",
    )
    [evaluation] = evaluated["evaluations"]
    assert evaluation["metrics"]["accuracy"] > 0.8


def test_predictions_of_a_checkpoint_cover_every_record(
    make_run: MakeRun, data: Path, tmp_path: Path
) -> None:
    run = make_run("--num_workers=2", "--num_epochs=8", "--max_step=20", "--checkpoint_steps=10").start()
    summary = run.assert_right_end(exact=False)
    assert 20 <= summary["version"] <= 20 + 1  # one worker may have begun a step when the other made the last
    assert summary["records_retrained"] == 0
    assert f"the training ends (max_step 20 reached) with {summary['records_done']} of 9600" in run.text()
    newest = run.checkpoints / f"version-{summary['last_checkpoint']}"
    use(
        make_run,
        tmp_path / "p",
        "predict",
        f"--prediction_data={data}",
        checkpoint=newest,
        model="predicting",
    )
    files = list((tmp_path / "p").glob("*.predictions"))
    assert sum(len(path.read_text().splitlines()) for path in files) == 1200


def test_a_callback_that_stops_the_training_stops_it_in_the_midst_of_a_shard(make_run: MakeRun) -> None:
    run = make_run("--num_workers=1", "--distribution_strategy=Local", model="stopping").start()
    summary = run.assert_right_end(exact=False)
    assert summary["version"] == 10
    assert summary["records_done"] == 2 * 64
    assert summary["records_retrained"] == 0
    assert re.search(r"the training ends \(a callback stopped the training\) with 128 of 1200", run.text())


def test_a_model_that_nobody_asked_for_is_in_the_run_folder(make_run: MakeRun) -> None:
    run = make_run("--num_workers=1", "--distribution_strategy=Local").start()
    summary = run.assert_right_end()
    model = run.folder / "model"
    assert sorted(path.name for path in model.iterdir()) == ["model.keras", "saved_model"]
    assert summary["model"] == str(model)
    assert f"the model is in {model}" in run.text()


def test_a_model_that_cannot_be_saved_fails_a_job_only_if_it_was_asked_for(
    make_run: MakeRun, tmp_path: Path
) -> None:
    run = make_run("--num_workers=1", "--distribution_strategy=Local", model="unsaved").start()
    assert run.assert_right_end()["model"] == ""
    assert "the finished model could not be written: " in run.text()
    assert "a layer of mine cannot be saved" in run.text()
    run.start("--restart", f"--output={tmp_path / 'wanted'}")
    run.assert_right_end(1, "failed", exact=False)


def test_a_reader_of_the_models_own_is_read_like_any_other(make_run: MakeRun) -> None:
    run = make_run("--num_workers=1", "--training_data=made-up", model="own_reader")
    run.command = [word for word in run.command if not word.startswith("--training_data=/")]
    run.start()
    summary = run.assert_right_end()
    assert summary["records_done"] == 600


def test_evaluations_come_once_and_in_order_even_through_a_new_master(make_run: MakeRun, data: Path) -> None:
    run = make_run(
        *("--num_workers=2", "--num_epochs=2", "--grads_to_wait=2"),
        *(f"--validation_data={data}", "--evaluation_steps=10", "--checkpoint_steps=10"),
    )
    run.pace(0.01)
    run.start().until(lambda: len(run.events(events.Evaluation)) >= 2, "two evaluations")
    run.kill_master()
    run.start().until(lambda: len(run.events(events.Evaluation)) >= 3, "a third evaluation")
    run.pace(0)
    run.assert_right_end()
    assert_evaluated_in_order(run, 10)
    assert "could not be written" not in run.text()


def assert_evaluated_in_order(run: Run, steps: int) -> None:
    """Every multiple of `steps`, and the final version, once and in order, as `grep` finds them.

    Only a version whose snapshot was lost with its holder may be missing, and that is said.
    """
    said = [int(version) for version in re.findall(r"Evaluation metrics\[v=(\d+)\]", run.text())]
    void = {int(version) for version in re.findall(r"evaluation of version (\d+) is void", run.text())}
    final = run.assert_right_end()["version"]
    wanted = list(range(steps, final + 1, steps)) + ([final] if final % steps else [])
    assert said == [version for version in wanted if version in said or version not in void]


def use(make_run: MakeRun, folder: Path, verb: str, given: str, *, checkpoint: Path, model: str) -> dict:
    """Evaluate or predict with a trained model."""
    folder.mkdir()
    options = ("--num_workers=1", given, f"--checkpoint_dir_for_init={checkpoint}")
    run = make_run(*options, verb=verb, model=model, folder=folder)
    return run.start().assert_right_end(exact=verb == "predict")
