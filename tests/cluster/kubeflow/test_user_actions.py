"""What the user of KFP's page does to runs that train on pods: what KFP shows is true, and nothing is left.

All is done through KFP's own server, by its own client, and what is left is counted through Kubernetes' API.
The rows of `docs/kubeflow_actions.md` come from here. The runs of several tests are started at once: they
train, slowly, until their test comes.
"""

import functools
import shutil
import uuid
from typing import Any, NamedTuple

import pytest
from kfp import Client

from elastic_runtime.ps import checkpoint
from tests.cluster.kit import kfp
from tests.cluster.kit.commands import until
from tests.cluster.kubeflow.kubeflow_table import KubeflowTable
from tests.cluster.kubeflow.runs import answered, told
from tests.cluster.kubeflow.trainings import (
    FOLDER,
    GONE_SECONDS,
    PACE,
    SECONDS,
    TrainingPipeline,
    TrainingRun,
    Workplace,
    recurring_runs,
    shared,
)

WRITING_PACE = 0.02
WRITING_EPOCHS = 1000
ORPHANED_SECONDS = 10
BACK = r"goes on where it was left: [1-9]\d* records done.*is back"
MENDED, SEVERAL, FIXED, DELETED, ARCHIVED = "mended", "several", "fixed", "deleted", "archived"
ZOO = f"{FOLDER}/zoo"
MENDED_ZOO = f"{FOLDER}/mended-zoo"
BROKEN = "\n\ndef loss(*_):\n    raise ValueError('this loss is broken')\n"


class Begun(NamedTuple):
    """What a user has written, and its run."""

    pipeline: TrainingPipeline
    run: TrainingRun


@pytest.fixture(scope="module")
def begun(place: Workplace) -> dict[str, Begun]:
    """Runs of the tests that come first, just started; the first has a mistake in its model."""
    shutil.copytree(place.seen(ZOO), place.seen(MENDED_ZOO))
    with (place.seen(MENDED_ZOO) / "tiny.py").open("a") as model:
        model.write(BROKEN)
    pipelines = {
        MENDED: place.pipeline(MENDED, model_zoo=MENDED_ZOO),
        SEVERAL: place.pipeline(SEVERAL),
        FIXED: place.pipeline(FIXED, job=f"fixed-{uuid.uuid4().hex[:8]}"),
        DELETED: place.pipeline(DELETED),
        ARCHIVED: place.pipeline(ARCHIVED),
    }
    for each in pipelines.values():
        each.pace(PACE)
    experiments = {ARCHIVED: f"put away {uuid.uuid4().hex[:6]}"}
    return {
        name: Begun(each, each.start(experiment=experiments.get(name))) for name, each in pipelines.items()
    }


def test_p12_without_more_rights_than_kfp_gives_the_step_names_what_to_apply(
    pipelines: kfp.Kfp, client: Client, our_image: str, tmp_path: Any
) -> None:
    claim = f"stock-{uuid.uuid4().hex[:8]}"
    with shared(pipelines, tmp_path, claim) as folder:
        place = Workplace(pipelines, client, our_image, folder, claim)
        run = place.pipeline("stock").start()
        assert run.ends() == "FAILED", run.report()
        assert "manifests/elasticdl-rbac.yaml | kubectl apply -n" in run.log(), run.report()
        assert run.left() == []


def test_a_run_that_failed_begins_anew_when_its_user_has_mended_it_and_retries(
    place: Workplace, begun: dict[str, Begun], table: KubeflowTable
) -> None:
    run = begun[MENDED].run
    assert run.ends() == "FAILED", run.report()
    assert "ValueError: this loss is broken" in run.log()
    run.until_nothing_is_left(GONE_SECONDS)
    model = place.seen(MENDED_ZOO) / "tiny.py"
    model.write_text(model.read_text().removesuffix(BROKEN))
    begun[MENDED].pipeline.pace(0)
    row = table.action("Retry of a run that failed by the model's error, mended since", run)
    run.retry()
    assert run.ends() == "SUCCEEDED", run.report()
    run.assert_each_record_is_done_once()
    row.over("SUCCEEDED", "begins anew, each record done once", seconds=GONE_SECONDS)


def test_runs_of_one_pipeline_at_once_have_each_a_job_of_their_own(
    place: Workplace, client: Client, begun: dict[str, Begun], table: KubeflowTable
) -> None:
    """A run, its clone, and two that a recurring run has started one over the other."""
    pipeline, first = begun[SEVERAL]
    first.until_training()
    clone = first.clone()
    experiment = client.create_experiment("recurring").experiment_id
    recurring = client.create_recurring_run(
        experiment,
        "every second",
        interval_second=1,
        max_concurrency=2,
        no_catchup=True,
        pipeline_package_path=str(pipeline.package),
    ).recurring_run_id
    try:
        until(
            lambda: len(recurring_runs(client, recurring)) >= 2,
            what="the recurring run has two runs",
            seconds=SECONDS,
        )
    finally:
        client.disable_recurring_run(recurring)
    runs = [first, clone, *(place.run(each) for each in recurring_runs(client, recurring))]
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
    for run, row in zip(runs, rows, strict=True):
        assert run.ends() == "SUCCEEDED", run.report()
        run.assert_each_record_is_done_once()
        row.over("SUCCEEDED", "each record done once", seconds=GONE_SECONDS)
    client.delete_recurring_run(recurring)


def test_two_runs_that_are_given_one_job_do_not_share_it(
    begun: dict[str, Begun], table: KubeflowTable
) -> None:
    """The second is refused, and neither it nor its clean-up does anything to the first."""
    pipeline, first = begun[FIXED]
    first.until_training()
    before = first.uids()
    second = pipeline.start()
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
    client: Client, begun: dict[str, Begun], table: KubeflowTable
) -> None:
    deleted, (kept, archived) = begun[DELETED].run, begun[ARCHIVED]
    for run in (deleted, archived):
        run.until_training()
    deleted.assert_it_goes_on()
    row = table.action("Delete, while it trains", deleted)
    deleted.delete()
    row.over("nothing: it is gone", "ended", seconds=GONE_SECONDS)
    listed = answered(functools.partial(client.list_runs, page_size=100)).runs
    assert deleted.run_id not in {each.run_id for each in listed}

    archived.assert_it_goes_on()
    row = table.action("Archive of its experiment, while it trains", archived)
    client.archive_experiment(told(client, archived.run_id).experiment_id)
    assert told(client, archived.run_id).storage_state == "ARCHIVED"
    kept.pace(0)
    assert archived.ends() == "SUCCEEDED", archived.report()
    archived.assert_each_record_is_done_once()
    row.over("SUCCEEDED", "goes on to its end, each record done once", seconds=GONE_SECONDS)


def test_a_run_that_is_terminated_at_any_moment_leaves_nothing(
    place: Workplace, table: KubeflowTable
) -> None:
    nowhere = f"kit/{uuid.uuid4().hex}=come"  # no node has that
    checkpoints = place.folder / "checkpointing" / "checkpoints"
    folder = f"{FOLDER}/checkpointing/checkpoints"
    written = {"checkpoint_steps": 1, "checkpoint_dir": folder, "num_epochs": WRITING_EPOCHS}
    pipelines = {
        "in the first second": place.pipeline("first"),
        "while its pods are pending": place.pipeline("pending", node_selector=nowhere),
        "while it trains": place.pipeline("training"),
        "while it writes a checkpoint": place.pipeline(
            "checkpointing", model_def="wide.custom_model", **written
        ),
    }
    for each in pipelines.values():
        each.pace(PACE)
    pipelines["while it writes a checkpoint"].pace(WRITING_PACE)  # so it writes nearly all the time

    def is_writing() -> bool:
        return any(checkpoints.glob("version-*")) and any(checkpoints.glob(".version-*"))

    def moment(when: str, run: TrainingRun) -> None:
        match when:
            case "while its pods are pending":
                run.until(lambda: {"ps-0", "worker-0"} <= {*run.pods()}, "the pods are asked for")
            case "while it trains":
                run.until_training()
            case "while it writes a checkpoint":
                run.until(lambda: any(checkpoints.glob("version-*")), "there is a checkpoint")
                until(is_writing, what="the next is being written", seconds=60)

    first, *later = pipelines
    runs = {first: pipelines[first].start(at_once=True)}
    terminate(runs[first], first, table)
    runs |= {when: pipelines[when].start() for when in later}
    for when in later:
        moment(when, runs[when])
        runs[when].assert_it_goes_on()
        terminate(runs[when], when, table)
    newest = checkpoint.newest(checkpoints)
    assert newest is not None
    assert checkpoint.read(newest).ledger, "what was being written has harmed what was there"


def terminate(run: TrainingRun, when: str, table: KubeflowTable) -> None:
    row = table.action(f"Terminate, {when}", run)
    run.terminate()
    until(lambda: run.state() in ("CANCELING", "FAILED"), what="KFP shows that the run is ending", seconds=30)
    assert run.ends() == "FAILED", run.report()  # so KFP calls what was terminated
    row.over("FAILED", "ended", seconds=GONE_SECONDS)


def test_a_run_without_a_clean_up_goes_on_when_it_is_retried_and_ends_by_itself_when_not(
    place: Workplace, table: KubeflowTable
) -> None:
    """A step that is terminated takes its pods with it, if it can; one that is killed leaves them waiting."""
    patience = {"ended": 10.0, "retried": 300.0, "forsaken": float(ORPHANED_SECONDS)}
    given = {name: place.pipeline(name, tidy=False, orphan_timeout=each) for name, each in patience.items()}
    for each in given.values():
        each.pace(PACE)
    ended, retried, forsaken = (each.start() for each in given.values())
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

    ended.until_nothing_is_left(ORPHANED_SECONDS + GONE_SECONDS)  # the step has taken all with it
    row.ended("FAILED", "ended")
    given["ended"].pace(0)
    ended.retry()

    retried.until_again(killed, BACK)
    assert before.items() <= retried.uids().items(), retried.report()
    given["retried"].pace(0)
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
    row = table.action("Delete of a run whose step was killed, without `clean_up`", forsaken)
    forsaken.delete()
    row.over("nothing: it is gone", "all goes with it", seconds=GONE_SECONDS)
