"""Any pod, or several, killed with -9 while a job trains: it ends right, every record accounted for."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from harness import MakeRun, Run

from elastic_runtime.observe import events

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_a_worker_then_all_then_the_master_then_master_and_worker_are_killed(make_run: MakeRun) -> None:
    run = make_run("--num_workers=2", "--num_epochs=2", "--grads_to_wait=2")
    run.pace(0.02)
    run.start().until_training(workers=2)
    run.until_done(100)

    run.kill("worker-0")
    run.hold()
    run.until_joined("worker-2")
    run.kill("worker")
    run.until_joined("worker-3", "worker-4")
    run.pace(0.02)

    before = run.pids()
    run.until_done(run.status().records_done + 100)
    run.kill_master()
    done = run.status().records_done
    run.start().until_said(r"goes on where it was left: (\d+) records done")
    run.until_done(done + 100)
    assert run.pids() == before, "workers and parameter servers were started again"

    run.kill_master()
    run.kill("worker-3")
    run.hold()
    run.start().until_joined("worker-5")
    assert {name for name in before if "-3" not in name} <= run.pids().keys()

    run.pace(0)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 4}
    retrained = sum(event.records for event in run.events(events.ShardRequeued))
    assert summary["records_retrained"] == retrained > 0
    assert run.text().count("is running already") == 3 + 2


@pytest.mark.parametrize(
    "options",
    [
        ("--num_workers=1", "--grads_to_wait=1"),
        ("--num_workers=2", "--grads_to_wait=1"),
        ("--num_workers=2", "--grads_to_wait=2"),
        ("--num_workers=2", "--use_async"),
    ],
    ids=" ".join,
)
def test_a_worker_killed_when_one_of_two_parameter_servers_has_its_push_holds_up_nobody(
    make_run: MakeRun, data: Path, options: tuple[str, ...]
) -> None:
    evaluated = (f"--validation_data={data}", "--evaluation_steps=20")
    run = make_run("--num_ps_pods=2", "--num_epochs=2", *options, *evaluated, model="torn")
    run.pace(0.02)
    run.start().until_training(workers=int(options[0][-1]))
    run.until_done(100)
    at = run.status().version
    die_between_two_pushes(run)
    run.until(lambda: run.status().version > at + 3, "the training goes on")
    run.pace(0)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 1}
    assert summary["evaluations"][-1]["version"] == summary["version"]
    if "--grads_to_wait=1" in options:
        assert "no gradient of it came before its workers were lost" in run.log("ps-1")


def test_a_job_whose_worker_was_killed_when_one_of_two_parameter_servers_had_its_push_can_be_stopped(
    make_run: MakeRun,
) -> None:
    run = make_run("--num_workers=1", "--num_ps_pods=2", "--num_epochs=2", model="torn")
    run.pace(0.02)
    run.start().until_done(100)
    die_between_two_pushes(run)
    assert run.job("stop").returncode == 0
    summary = run.assert_right_end(130, "stopped", exact=False)
    assert summary["last_checkpoint"] == summary["version"] > 0


def die_between_two_pushes(run: Run) -> None:
    """Whichever worker pushes next."""
    torn = run.cwd / "torn"
    torn.touch()
    run.until(lambda: not torn.exists(), "a worker is between its two pushes")


def test_a_parameter_server_killed_between_and_during_pushes_comes_back_with_the_workers_copy(
    make_run: MakeRun,
) -> None:
    run = make_run("--num_workers=2", "--num_ps_pods=2", "--num_epochs=2", model="normalized")
    run.pace(0.02)
    run.start().until_training(workers=2)
    run.until_done(100)

    at = run.status().version
    run.kill("ps-1")  # a minibatch takes 0.3 s to read, a push next to nothing
    first = back_to(run, r"the workers' freshest copy")
    assert at - 2 <= first[0] <= run.status().version

    run.until(lambda: run.status().version > first[0] + 2, "the training goes on")
    run.kill("ps-0", number=signal.SIGSTOP)
    run.pace(0)
    run.until_it_stands_still()
    run.kill("ps-0")  # both workers wait for its answer to a push or a pull
    second = back_to(run, r"the workers' freshest copy", count=2)
    assert second[0] > first[0]

    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 2}
    assert summary["records_retrained"] == first[1] + second[1] > 0


def test_a_parameter_server_killed_while_the_final_model_is_evaluated_costs_only_time(
    make_run: MakeRun, data: Path
) -> None:
    run = make_run("--num_workers=1", f"--validation_data={data}", model="judged")
    run.pace(0.005)  # of each record evaluated, too
    run.start().until_done(1100)
    run.pace(0.05)  # lest the evaluation is over before the kill
    run.until_done(1200)
    run.pace(0.2)  # nor before there is another server, which may take long
    run.kill("ps-0")
    back_to(run, r"the workers' freshest copy")
    assert not run.events(events.Evaluation)
    run.pace(0)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 1}
    [evaluation] = summary["evaluations"]
    assert evaluation["version"] == summary["version"]


@pytest.mark.parametrize("checkpoint_steps", [0, 30])
def test_a_parameter_server_killed_while_the_model_is_exported_costs_only_time(
    make_run: MakeRun, tmp_path: Path, checkpoint_steps: int
) -> None:
    output = tmp_path / "model"
    run = make_run(
        *("--num_workers=1", f"--output={output}", f"--checkpoint_steps={checkpoint_steps}"),
        model="lingering",
    )
    run.pace(0.0001)
    run.start()
    run.until(lambda: "the export has begun" in run.log("worker-0"), "the export begins")
    if checkpoint_steps:
        run.until_said(r"checkpoint version-\d+ saved")
    [old] = run.kill("ps-0")
    if checkpoint_steps:
        back_to(run, r"version-\d+")  # and what the export under way writes is of a model that is no more
    else:
        run.until(lambda: pids_of(run, "ps-0") - {old}, "another parameter server runs")
    assert not output.exists() or not list(output.glob("*.keras"))
    run.pace(0)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 1}
    assert sorted(path.name for path in output.iterdir()) == ["model.keras", "saved_model"]
    assert (output / "saved_model" / "saved_model.pb").exists()


def test_a_parameter_server_killed_after_a_checkpoint_comes_back_with_it_and_its_ledger(
    make_run: MakeRun,
) -> None:
    run = make_run("--num_workers=1", "--num_epochs=2", "--checkpoint_steps=10", "--use_async")
    run.pace(0.02)
    run.start().until_said(r"checkpoint version-20 saved")
    run.until_done(run.status().records_done + 64)

    run.kill("ps-0")
    version, again = back_to(run, r"version-\d+")
    assert version >= 20
    assert version % 10 == 0

    run.pace(0)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 1}
    assert summary["records_retrained"] == again > 0
    assert summary["last_checkpoint"] > version


def back_to(run: Run, source: str, count: int = 1) -> tuple[int, int]:
    """The version that the model went back to, and how many records are trained again, as the log says it."""
    pattern = rf"the model is (?:that of|back at) \S*{source}: version (\d+), (\d+) records are trained again"
    found = run.until(
        lambda: len(list(re.finditer(pattern, run.text()))) >= count, f"the model is back ({count})"
    )
    assert found
    said = [(int(m[1]), int(m[2])) for m in re.finditer(pattern, run.text())][-1]
    run.until(lambda: said in restored(run), "what is said is on record")  # which comes after it
    return said


def restored(run: Run) -> list[tuple[int, int]]:
    return [(event.version, event.records_again) for event in run.events(events.ModelRestored)]


def test_a_worker_killed_while_it_gives_its_copy_to_a_new_parameter_server_is_replaced_by_another_copy(
    make_run: MakeRun,
) -> None:
    run = make_run("--num_workers=2", "--num_epochs=2")
    run.pace(0.01)
    run.start().until_training(workers=2)
    run.until_done(100)
    [old] = run.kill("ps-0")
    new = run.until(lambda: pids_of(run, "ps-0") - {old}, "another parameter server runs")
    run.until_said(r"worker \S+ joined(?s:.*)starting \S+-ps-0 in place")
    os.kill(next(iter(new)), signal.SIGSTOP)  # whoever uploads to it now waits
    run.until_it_stands_still()
    run.kill("worker-0")
    run.until_joined("worker-2")
    os.kill(next(iter(new)), signal.SIGCONT)
    run.pace(0)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 2}


def pids_of(run: Run, name: str) -> set[int]:
    return {pid for pod, pid in run.pids().items() if pod.endswith(f"-{name}")}
