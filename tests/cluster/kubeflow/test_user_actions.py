"""What the user of KFP's page does to runs that train on pods: what KFP shows is true, and nothing is left.

All is done through KFP's own server, by its own client, and what is left is counted through Kubernetes' API.
The rows of `docs/kubeflow_actions.md` come from here. The runs of several tests are started at once, a set at
a time, as memory has no room for all: they train, slowly, until their test comes, and the next set begins
while the test before waits for its ends.
"""

import functools
import re
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from kfp import Client

from elastic_runtime.ps import checkpoint
from tests.cluster.kit.cluster import PATIENCE_SECONDS
from tests.cluster.kit.commands import until
from tests.cluster.kubeflow.kubeflow_table import DELETED, Action, KubeflowTable
from tests.cluster.kubeflow.runs import ATTEMPTS, UNHEARD, answered, told
from tests.cluster.kubeflow.trainings import (
    FOLDER,
    GONE_SECONDS,
    LAST_WORDS,
    LOOK,
    PACE,
    SECONDS,
    TrainingPipeline,
    TrainingRun,
    Workplace,
    recurring_runs,
)

WRITING_PACE = 0.02
WRITING_EPOCHS = 1000
ORPHANED_SECONDS, PATIENT_SECONDS = 10, 900
BACK = r"goes on where it was left: [1-9]\d* records done.*is back"
MENDED, HOPELESS, SEVERAL, FIXED = "mended", "hopeless", "several", "fixed"
DELETED_RUN, ARCHIVED = "deleted", "archived"
PENDING, TRAINING, CHECKPOINTING = "pending", "training", "checkpointing"
ENDED, RETRIED, FORSAKEN = "ended", "retried", "forsaken"
ZOO, BROKEN_ZOO = f"{FOLDER}/zoo", f"{FOLDER}/broken-zoo"
MENDED_ZOO = f"{FOLDER}/mended-zoo"
CHECKPOINTS = f"{FOLDER}/{CHECKPOINTING}/checkpoints"
BROKEN = "\n\ndef loss(*_):\n    raise ValueError('this loss is broken')\n"


class Begun(NamedTuple):
    """What a user has written, and its run."""

    pipeline: TrainingPipeline
    run: TrainingRun


Later = Callable[[], dict[str, Begun]]
"""Begins the runs when it is called first, and has them from then on."""


def begin(
    place: Workplace, pipelines: dict[str, TrainingPipeline], experiments: dict[str, str] | None = None
) -> dict[str, Begun]:
    """A run of each, which trains slowly."""
    for each in pipelines.values():
        each.pace(PACE)
    runs = place.start(pipelines, experiments)
    return {name: Begun(each, runs[name]) for name, each in pipelines.items()}


@pytest.fixture(scope="module")
def begun(place: Workplace) -> dict[str, Begun]:
    """Runs of the tests that come first, just started; the first two have a mistake in their model."""
    for zoo in (MENDED_ZOO, BROKEN_ZOO):
        shutil.copytree(place.seen(ZOO), place.seen(zoo))
        with (place.seen(zoo) / "tiny.py").open("a") as model:
            model.write(BROKEN)
    pipelines = {
        MENDED: place.pipeline(MENDED, model_zoo=MENDED_ZOO),
        HOPELESS: place.pipeline(HOPELESS, model_zoo=BROKEN_ZOO),
        SEVERAL: place.pipeline(SEVERAL),
        FIXED: place.pipeline(FIXED, job=f"fixed-{uuid.uuid4().hex[:8]}"),
        DELETED_RUN: place.pipeline(DELETED_RUN),
        ARCHIVED: place.pipeline(ARCHIVED),
    }
    made = begin(place, pipelines, {ARCHIVED: f"put away {uuid.uuid4().hex[:6]}"})
    for name in (MENDED, HOPELESS):  # there is nothing to wait for
        made[name].pipeline.pace(0)
    return made


class Refused(NamedTuple):
    """A run that is given the job of another, and the pods of that, by their uids, before it was made."""

    run: TrainingRun
    pods_of_the_first: dict[str, str]


@pytest.fixture(scope="module")
def refused(begun: dict[str, Begun]) -> Callable[[], Refused]:
    """Begins it when it is called first, and the other trains."""

    def begin_it() -> Refused:
        pipeline, first = begun[FIXED]
        first.until_training()
        pods = first.uids()
        return Refused(pipeline.start(), pods)

    return functools.cache(begin_it)


@pytest.fixture(scope="module")
def to_be_terminated(place: Workplace) -> Later:
    """Runs that have got as far as the moments at which users think better of it."""

    def begin_them() -> dict[str, Begun]:
        nowhere = f"kit/{uuid.uuid4().hex}=come"  # no node has that
        written = {"checkpoint_steps": 1, "checkpoint_dir": CHECKPOINTS, "num_epochs": WRITING_EPOCHS}
        pipelines = {
            PENDING: place.pipeline(PENDING, node_selector=nowhere),
            TRAINING: place.pipeline(TRAINING),
            CHECKPOINTING: place.pipeline(CHECKPOINTING, model_def="wide.custom_model", **written),
        }
        return begin(place, pipelines)

    return functools.cache(begin_them)


@pytest.fixture(scope="module")
def without_clean_up(place: Workplace) -> Later:
    """Runs after which nothing cleans up."""

    def begin_them() -> dict[str, Begun]:
        patience = {ENDED: ORPHANED_SECONDS, RETRIED: PATIENT_SECONDS, FORSAKEN: ORPHANED_SECONDS}
        given = {
            name: place.pipeline(name, tidy=False, orphan_timeout=float(seconds))
            for name, seconds in patience.items()
        }
        return begin(place, given)

    return functools.cache(begin_them)


def test_a_run_that_failed_begins_anew_when_it_is_retried_mended_or_not(
    place: Workplace, begun: dict[str, Begun], table: KubeflowTable
) -> None:
    mended, hopeless = begun[MENDED].run, begun[HOPELESS].run
    for run in (mended, hopeless):
        assert run.ends() == "FAILED", run.report()
        assert "ValueError: this loss is broken" in run.log()
        run.until_nothing_is_left(GONE_SECONDS)
    model = place.seen(MENDED_ZOO) / "tiny.py"
    model.write_text(model.read_text().removesuffix(BROKEN))
    row = table.action("Retry of a run that failed by the model's error, mended since", mended)
    mended.retry()
    failed = hopeless.step_uids()
    other_row = table.action("Retry of a run that failed by the model's error, as it was", hopeless)
    hopeless.retry()
    assert mended.ends() == "SUCCEEDED", mended.report()
    mended.assert_each_record_is_done_once()
    row.over("SUCCEEDED", "begins anew, each record done once", seconds=GONE_SECONDS)

    hopeless.until_again(failed, "ValueError: this loss is broken")
    assert hopeless.ends() == "FAILED", hopeless.report()
    hopeless.until_no_pod_lives(GONE_SECONDS)  # the exit handler does not come again: docs/known-issues.md
    other_row.ended("FAILED", "begins anew and fails again; none of its pods is alive")
    hopeless.delete()
    hopeless.until_nothing_is_left(GONE_SECONDS)


def test_runs_of_one_pipeline_at_once_have_each_a_job_of_their_own(
    place: Workplace,
    client: Client,
    begun: dict[str, Begun],
    refused: Callable[[], Refused],
    table: KubeflowTable,
) -> None:
    """A run, its clone, and two that a recurring run has started one over the other."""
    pipeline, first = begun[SEVERAL]
    first.until_training()
    clone = first.clone()
    experiment = answered(functools.partial(client.create_experiment, "recurring")).experiment_id
    recurring = client.create_recurring_run(
        experiment,
        "every second",
        interval_second=1,
        max_concurrency=2,
        no_catchup=True,
        pipeline_package_path=str(pipeline.package),
    ).recurring_run_id

    def at_once() -> list[TrainingRun]:
        """Those that KFP has not lost, as it may in their first second; others come in their place."""
        made = map(place.run, recurring_runs(client, recurring))
        return [run for run in made if not run.is_lost()]

    def are_two_going_on() -> bool:
        return sum(run.state() != UNHEARD for run in at_once()) >= 2

    try:
        what = "the recurring run has two runs that go on"
        until(are_two_going_on, what=what, seconds=SECONDS, every=LOOK)
    finally:
        answered(functools.partial(client.disable_recurring_run, recurring))
    runs = [first, clone, *at_once()]
    assert len(runs) == 4  # not more at once than it may have
    for run in runs:
        run.until_training()
    for run in runs:
        run.assert_it_goes_on()
    pods_of = [run.uids() for run in runs]
    for named in pods_of:
        assert {name.rstrip("0123456789") for name in named} == {"ps-", "worker-"}
    assert sum(map(len, pods_of)) == len({uid for named in pods_of for uid in named.values()})
    rows = [
        table.action(what, run)
        for what, run in zip(
            (
                "two runs at once: the first",
                "Clone, while the first trains",
                *("a recurring run over itself",) * 2,
            ),
            runs,
            strict=True,
        )
    ]
    pipeline.pace(0)
    refused()  # the next test waits for it
    for run, row in zip(runs, rows, strict=True):
        assert run.ends() == "SUCCEEDED", run.report()
        run.assert_each_record_is_done_once()
        row.over("SUCCEEDED", "each record done once", seconds=GONE_SECONDS)
    answered(functools.partial(client.delete_recurring_run, recurring))


def test_two_runs_that_are_given_one_job_do_not_share_it(
    begun: dict[str, Begun], refused: Callable[[], Refused], table: KubeflowTable
) -> None:
    """The second is refused, and neither it nor its clean-up does anything to the first."""
    pipeline, first = begun[FIXED]
    second, before = refused()
    first.assert_it_goes_on()
    assert second.ends() == "FAILED", second.report()
    said = f"a job of this name is there already, in {first.workflow()}"
    assert said in second.log(), second.report()
    assert first.uids() == before
    first.assert_it_goes_on()
    row = table.action("two runs at once with the same `job_name`: the first", first)
    pipeline.pace(0)
    assert first.ends() == "SUCCEEDED", first.report()
    first.assert_each_record_is_done_once()
    row.over("SUCCEEDED", "each record done once; the second is refused, and FAILED", seconds=GONE_SECONDS)


def test_a_run_that_is_deleted_takes_its_training_with_it_and_an_archived_one_goes_on(
    client: Client, begun: dict[str, Begun], to_be_terminated: Later, table: KubeflowTable
) -> None:
    deleted, (kept, archived) = begun[DELETED_RUN].run, begun[ARCHIVED]
    for run in (deleted, archived):
        run.until_training()
    for run in (deleted, archived):
        run.assert_it_goes_on()
    row_of_the_archived = table.action("Archive of its experiment, while it trains", archived)
    experiment = told(client, archived.run_id).experiment_id
    answered(functools.partial(client.archive_experiment, experiment))
    assert told(client, archived.run_id).storage_state == "ARCHIVED"
    archived.assert_it_goes_on()
    kept.pace(0)
    to_be_terminated()  # the next test waits for them

    row = table.action("Delete, while it trains", deleted)
    deleted.delete()
    row.over(DELETED, "ended", seconds=GONE_SECONDS)
    listed = answered(functools.partial(client.list_runs, page_size=100)).runs
    assert deleted.run_id not in {each.run_id for each in listed}

    assert archived.ends() == "SUCCEEDED", archived.report()
    archived.assert_each_record_is_done_once()
    row_of_the_archived.over("SUCCEEDED", "goes on to its end, each record done once", seconds=GONE_SECONDS)


def test_a_run_that_is_terminated_at_any_moment_leaves_nothing(
    place: Workplace, to_be_terminated: Later, without_clean_up: Later, table: KubeflowTable
) -> None:
    terminate_in_its_first_second(place.pipeline("first"), table)
    given = to_be_terminated()
    pending, training, writing = (given[name].run for name in (PENDING, TRAINING, CHECKPOINTING))
    checkpoints = place.seen(CHECKPOINTS)

    def is_writing() -> bool:
        return any(checkpoints.glob("version-*")) and any(checkpoints.glob(".version-*"))

    pending.until(lambda: {"ps-0", "worker-0"} <= {*pending.pods()}, "the pods are asked for")
    training.until_training()
    writing.until(lambda: any(checkpoints.glob("version-*")), "there is a checkpoint")
    given[CHECKPOINTING].pipeline.pace(WRITING_PACE)  # so that it writes nearly all the time
    until(is_writing, what="the next checkpoint is being written", seconds=PATIENCE_SECONDS)
    moments = {
        writing: "while it writes a checkpoint",
        pending: "while its pods are pending",
        training: "while it trains",
    }
    rows = list[Action]()
    for run, moment in moments.items():
        run.assert_it_goes_on()
        rows.append(table.action(f"Terminate, {moment}", run))
        run.terminate()
    without_clean_up()  # the next test waits for them
    until_all_are_over(rows, "FAILED", "ended")  # so KFP calls what was terminated
    newest = checkpoint.newest(checkpoints)
    assert newest is not None
    assert checkpoint.read(newest).ledger, "what was being written has harmed what was there"


def terminate_in_its_first_second(pipeline: TrainingPipeline, table: KubeflowTable) -> None:
    """Of a run that KFP has lost meanwhile, as it may, nothing can be seen, and another is taken."""
    for _ in range(ATTEMPTS):
        run = pipeline.start_at_once()
        row = table.action("Terminate, in the first second", run)
        run.terminate()
        run.until(lambda run=run: run.ended() or run.is_lost(), "it ends")
        if not run.is_lost():
            break
        table.actions.remove(row)
    assert run.ends() == "FAILED", run.report()
    row.over("FAILED", "ended", seconds=GONE_SECONDS)


def until_all_are_over(rows: Sequence[Action], shown: str, training: str) -> None:
    """Wait until all these runs have ended and nothing of their jobs is left; each row has its own time."""
    deadlines, waiting = {row.run: time.monotonic() + SECONDS for row in rows}, [*rows]
    ended = set[TrainingRun]()
    while waiting:
        for row in [*waiting]:
            run, state = row.run, row.run.ended()
            assert state in {"", shown}, run.report()
            if state and not run.left():
                row.over(shown, training, seconds=GONE_SECONDS)
                waiting.remove(row)
            elif state and run not in ended:
                ended.add(run)
                deadlines[run] = time.monotonic() + GONE_SECONDS
            else:
                what = f"nothing is left: {run.left()}" if state else "it ends"
                assert time.monotonic() < deadlines[run], f"not in time: {what}\n{run.report()}"
        time.sleep(LOOK)


def test_a_run_without_a_clean_up_goes_on_when_it_is_retried_and_ends_by_itself_when_not(
    without_clean_up: Later, table: KubeflowTable
) -> None:
    """A step that is terminated takes its pods with it, if it can; one that is killed leaves them waiting."""
    given = without_clean_up()
    ended, retried, forsaken = (given[name].run for name in (ENDED, RETRIED, FORSAKEN))
    for run in (ended, retried, forsaken):
        run.until_training()
    before = retried.uids()
    killed = retried.step_uids()
    for run in (ended, retried, forsaken):
        run.assert_it_goes_on()
    row = table.action(f"Terminate, without `clean_up`, with `orphan_timeout={ORPHANED_SECONDS}`", ended)
    ended.terminate()
    for run in (retried, forsaken):
        run.kill_step()
    assert retried.ends() == "FAILED", retried.report()
    retried.retry()
    for run in (ended, forsaken):
        assert run.ends() == "FAILED", run.report()
    assert forsaken.ended_by() == "Error", forsaken.report()
    assert re.search(LAST_WORDS, forsaken.reason()), forsaken.report()

    ended.until_no_pod_lives(ORPHANED_SECONDS + GONE_SECONDS)  # it may be that the step has taken all with it
    row.ended("FAILED", "its pods end, by the step's last word or by themselves")
    given[ENDED].pipeline.pace(0)
    ended.retry()

    retried.until_again(killed, BACK)
    assert before.items() <= retried.uids().items(), retried.report()
    given[RETRIED].pipeline.pace(0)
    assert retried.ends() == "SUCCEEDED", retried.report()
    done = table.action("Retry of a run whose step was killed, without `clean_up`", retried)
    retried.assert_each_record_is_done_once()
    done.over("SUCCEEDED", "goes on with its pods, each record done once", seconds=GONE_SECONDS)
    assert ended.ends() == "SUCCEEDED", ended.report()
    done = table.action("Retry of a run that was terminated, without `clean_up`", ended)
    ended.assert_each_record_is_done_once()
    done.over("SUCCEEDED", "each record done once", seconds=GONE_SECONDS)

    forsaken.until_no_pod_lives(ORPHANED_SECONDS + GONE_SECONDS)
    what = f"A step is killed, without `clean_up`, with `orphan_timeout={ORPHANED_SECONDS}`"
    table.action(what, forsaken).ended("FAILED", "its pods end by themselves")
    said = {"shown": "FAILED", "said": forsaken.reason()}
    table.fault("the step: killed with -9, without `clean_up`", forsaken, retry="", **said)
    row = table.action("Delete of a run whose step was killed, without `clean_up`", forsaken)
    forsaken.delete()
    row.over(DELETED, "all goes with it", seconds=GONE_SECONDS)
