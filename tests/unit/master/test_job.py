"""A job's journal tells it again, whatever happened: the same rows make the same job."""

import asyncio
import json
import random
from pathlib import Path

import numpy as np
import pytest

from elastic_runtime.master import evaluation, ledger
from elastic_runtime.master.evaluation import MetricState
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, EXPORT, LISTING, REMEMBERED, TRAINING, Job, Outcome
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Members
from elastic_runtime.master.narrator import Narrator
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.master.versions import Versions
from elastic_runtime.spec.job import JobSpec


def a_spec(folder: Path, **options) -> JobSpec:
    values = {
        "job_name": "j",
        "model_def": "m.py",
        "training_data": "train",
        "validation_data": "test",
        "evaluation_steps": "3",
        "checkpoint_steps": "4",
        "num_epochs": "2",
        "minibatch_size": "8",
        "num_minibatches_per_task": "2",
        "output": str(folder / "out"),
        "run_dir": str(folder),
    }
    return JobSpec.make(values | {name: str(value) for name, value in options.items()}, [])


def a_job(folder: Path, **options) -> tuple[Job, list]:
    rows: list = []
    job = Job(a_spec(folder, **options), lambda row: rows.append(json.loads(json.dumps(row))))
    sources = {
        TRAINING: [Source("a", 100), Source("b", 40)],
        EVALUATION: [Source("t", 30)],
        EXPORT: [Source("model", 1)],
    }
    job.begin(sources)
    job.begin_era(1, Origin("fresh", holders=("x",)))
    return job, rows


def told_again(job: Job, rows: list, folder: Path) -> Job:
    again = Job(job.spec, lambda row: None)
    for row in rows:
        again.replay(row)
    return again


class World:
    """Workers that take whatever work there is, and lose it again."""

    def __init__(self, job: Job, random: random.Random) -> None:
        self.job, self.random, self.held, self.now, self.version = job, random, [], 0.0, 0

    def step(self) -> None:
        self.now += 1
        kind = self.random.random()
        if kind < 0.5:
            self.ask(f"w{self.random.randrange(3)}")
        elif kind < 0.9 and self.held:
            self.finish(self.held.pop(0))
        elif kind < 0.97:
            worker = f"w{self.random.randrange(3)}"
            self.held = [h for h in self.held if h[0] != worker]
            for machine in (TRAINING, EVALUATION, EXPORT):
                self.job.tell(machine, ledger.WorkerLost(worker))
        else:
            self.go_back()

    def ask(self, worker: str) -> None:
        for machine in self.job.open_machines():
            for effect in self.job.tell(machine, ledger.Ask(worker, self.now)):
                if isinstance(effect, ledger.Granted | evaluation.Granted):
                    self.held.append((worker, machine, effect))
                    return

    def finish(self, held) -> None:
        worker, machine, granted = held
        if machine == EVALUATION and granted.kind is evaluation.Kind.RESULT:
            event = evaluation.ResultReported(worker, granted.lease, {"accuracy": 0.5}, self.now)
        elif machine == EVALUATION:
            states = (MetricState("accuracy", (np.array([1.0, 2.0]),)),)
            event = evaluation.PartDone(worker, granted.lease, states, self.now)
        else:
            self.version += machine == TRAINING
            event = ledger.Finished(worker, granted.lease, self.version, self.now)
        effects = self.job.tell(machine, event)
        if machine == TRAINING:
            self.reach()
        if machine == EXPORT:
            self.job.export("there")
        if machine == TRAINING and any(isinstance(e, ledger.AllFinished) for e in effects):
            self.job.tell(EVALUATION, evaluation.FinalModel(self.job.version))

    def reach(self) -> None:
        self.job.reach(self.version)
        if self.version % 3 == 0:
            self.job.tell(EVALUATION, evaluation.VersionReached(self.version))
        if self.version % 4 == 0:
            self.saved = self.job.machines[TRAINING].state_at(self.version)
            self.job.save(self.version)

    def go_back(self) -> None:
        self.held.clear()
        if self.job.saved_version:
            origin = Origin("checkpoint", self.job.saved_version, "c", self.saved, ("y",))
        else:
            origin = Origin("copy", max(0, self.version - 1), holders=("y",))
        self.version = origin.version
        self.job.begin_era(self.job.era + 1, origin)
        self.job.tell(EVALUATION, evaluation.SnapshotLost())


@pytest.mark.parametrize("seed", range(25))
def test_the_journal_tells_the_same_job_and_the_job_comes_to_its_end(tmp_path, seed):
    job, rows = a_job(tmp_path)
    world = World(job, random.Random(seed))
    snapshot_at = random.Random(seed).randrange(200)
    for number in range(5000):
        if job.complete:
            break
        world.step()
        if number == snapshot_at:
            state = json.loads(json.dumps(job.state()))
            again = Job(job.spec, lambda row: None)
            again.restore(state)
            assert again.state() == job.state()
        if number % 97 == 0:
            assert told_again(job, rows, tmp_path).state() == job.state()
    assert job.complete, "nothing may wait for ever"
    assert told_again(job, rows, tmp_path).state() == job.state()
    done = [job.machines[TRAINING].done_intervals(epoch) for epoch in range(2)]
    assert done == [{"a": [(0, 100)], "b": [(0, 40)]}] * 2


def test_a_job_that_failed_and_is_opened_again_forgives_the_failure(tmp_path):
    job, rows = a_job(tmp_path, max_task_attempts=1)
    granted = job.tell(TRAINING, ledger.Ask("w", 1.0))[0]
    job.tell(TRAINING, ledger.Failed("w", granted.lease, "no", False, 2.0))
    job.end(Outcome("failed", "no"))
    assert job.main.failed
    job.reopen()
    assert not job.main.failed
    assert job.outcome is None
    assert told_again(job, rows, tmp_path).state() == job.state()


def trained_through(folder: Path, **options) -> Job:
    """All of the data is trained, the last update gave version 18."""
    job, _ = a_job(folder, **options)
    world = World(job, random.Random(1))
    while not job.main.finished:
        granted = next(e for e in job.tell(TRAINING, ledger.Ask("w", 0.0)) if isinstance(e, ledger.Granted))
        world.version += 1
        job.tell(TRAINING, ledger.Finished("w", granted.lease, world.version, 0.0))
    job.tell(EVALUATION, evaluation.FinalModel(job.version))
    return job


def test_an_export_that_a_new_era_cut_short_is_handed_out_again(tmp_path):
    job = trained_through(tmp_path)
    World(job, random.Random(1)).go_back()
    assert not job.main.finished  # the copy was of the version before
    job = trained_through(tmp_path)
    job.machines[EVALUATION].handle(evaluation.SnapshotLost())
    (first,) = job.tell(EXPORT, ledger.Ask("w", 0.0))
    assert isinstance(first, ledger.Granted)
    job.begin_era(2, Origin("copy", job.version, holders=("y",)))
    assert any(isinstance(effect, ledger.Granted) for effect in job.tell(EXPORT, ledger.Ask("w", 1.0)))


def lose_the_holder(job: Job, folder: Path, origin: Origin) -> None:
    """The model goes back, and the master does what it does then."""

    async def durable() -> None:
        return

    async def begin_era() -> None:
        versions = Versions(
            job,
            tell=job.tell,
            tasks=Tasks(lambda problem: None),
            narrator=Narrator(job.spec, folder, job, None),
            members=Members(),
            token="",
            durable=durable,
            news=lambda: None,
            fail=pytest.fail,
            host="",
        )
        await versions._begin_era(2, origin)
        await asyncio.sleep(0)  # what is to follow it follows

    asyncio.run(begin_era())


def test_a_model_that_is_lost_when_all_is_done_takes_nothing_of_it_back(tmp_path):
    job, rows = a_job(tmp_path)
    world = World(job, random.Random(1))
    while not job.complete:
        world.step()
    version, done = job.version, job.main.records_done
    lose_the_holder(job, tmp_path, Origin("copy", version - 1, holders=("y",)))
    assert job.complete
    assert (job.era, job.version, job.main.records_done) == (2, version, done)
    assert told_again(job, rows, tmp_path).state() == job.state()


@pytest.mark.parametrize("evaluated", [False, True])
def test_the_final_model_is_evaluated_once_though_its_holder_was_lost_meanwhile(tmp_path, evaluated):
    job = trained_through(tmp_path)
    version = job.version
    if evaluated:
        job.evaluation.results[version] = {"accuracy": 0.5}
    lose_the_holder(job, tmp_path, Origin("copy", version, holders=("y",)))
    assert job.evaluation.idle == evaluated


@pytest.mark.parametrize(("version", "is_enough"), [(5, True), (4, False)])
def test_a_model_that_comes_back_at_its_maximal_step_is_trained_no_further(tmp_path, version, is_enough):
    job, _ = a_job(tmp_path, max_step=5)
    (granted,) = job.tell(TRAINING, ledger.Ask("w", 0.0))
    job.tell(TRAINING, ledger.Finished("w", granted.lease, version, 0.0))
    origin = Origin("checkpoint", version, "c", job.machines[TRAINING].state_at(version), ("y",))
    lose_the_holder(job, tmp_path, origin)
    assert job.main.finished == is_enough


def test_work_is_listed_before_anything_else_and_exported_after_everything_else(tmp_path):
    job, _ = a_job(tmp_path)
    assert job.open_machines() == [EVALUATION, TRAINING]
    world = World(job, random.Random(1))
    while not job.worked_through:
        world.step()
    assert job.open_machines() == [EVALUATION, TRAINING, EXPORT]
    assert not job.complete


def test_a_job_whose_listing_is_in_but_not_yet_begun_is_not_complete(tmp_path):
    job = Job(a_spec(tmp_path, output=""), lambda row: None)
    job.begin({LISTING: [Source(TRAINING, 1), Source(EVALUATION, 1)]})
    for serial, kind in enumerate((TRAINING, EVALUATION), start=1):
        assert job.open_machines() == [LISTING]
        [granted] = job.tell(LISTING, ledger.Ask("w0", 0.0, serial))
        job.tell(LISTING, ledger.Finished("w0", granted.lease, 0, 0.0))
        assert not job.complete
        job.begin({kind: [Source("a", 10)]})
    assert job.open_machines() == [EVALUATION, TRAINING]


@pytest.mark.parametrize(("steps", "is_all_known"), [(0, False), (100, True)])
def test_how_far_back_a_job_can_tell_what_was_done_is_bounded_unless_it_keeps_checkpoints(
    tmp_path, steps, is_all_known
):
    job, _ = a_job(tmp_path, checkpoint_steps=steps, num_epochs=0)
    for version in range(2 * REMEMBERED + 1):
        [granted] = job.tell(TRAINING, ledger.Ask("w", 0.0))
        job.tell(TRAINING, ledger.Finished("w", granted.lease, version, 0.0))
    done = job.main.records_done
    job.begin_era(2, Origin("copy", version - REMEMBERED + 1, holders=("y",)))
    assert 0 < job.main.records_done < done
    job.begin_era(3, Origin("copy", 1, holders=("y",)))
    assert (job.main.records_done > 0) == is_all_known


def stopped_in_the_midst_of_a_shard(folder: Path) -> tuple[Job, list]:
    """The maximal step was reached there: a shard is finished, the other is given back."""
    job, rows = a_job(folder, max_step=1000, evaluation_steps=0)
    first, second = (job.tell(TRAINING, ledger.Ask("w", 0.0, serial))[0].lease for serial in (1, 2))
    job.tell(TRAINING, ledger.Finished("w", first, 996, 0.0))
    job.reach(1000)
    job.tell(TRAINING, ledger.StopHandingOut("max_step 1000 reached"))
    job.tell(TRAINING, ledger.GivenBack("w", second, 8, 0.0, 1000))
    return job, rows


def evaluate(job: Job) -> None:
    """A worker does all there is of it."""
    world = World(job, random.Random(1))
    while not job.evaluation.idle:
        [granted] = job.tell(EVALUATION, ledger.Ask("w", 0.0))
        world.finish(("w", EVALUATION, granted))


@pytest.mark.parametrize("is_evaluated", [True, False])
def test_the_next_master_knows_the_final_model_by_its_version_and_evaluates_it_no_second_time(
    tmp_path, is_evaluated
):
    job, rows = stopped_in_the_midst_of_a_shard(tmp_path)
    if is_evaluated:
        job.tell(EVALUATION, evaluation.FinalModel(job.version))
        evaluate(job)
    heir = told_again(job, rows, tmp_path)
    heir.tell(EVALUATION, evaluation.FinalModel(heir.version))
    assert heir.evaluation.idle == is_evaluated
    evaluate(heir)
    assert (heir.version, [*heir.evaluation.results]) == (1000, [1000])


def test_the_next_master_knows_a_version_by_its_planned_evaluation(tmp_path):
    job, rows = a_job(tmp_path)
    job.reach(7)
    job.tell(EVALUATION, evaluation.VersionReached(6))
    assert told_again(job, rows, tmp_path).version == 6


def test_a_snapshot_that_was_asked_for_does_not_pass_over_what_is_due_before_it(tmp_path):
    job, _ = a_job(tmp_path, evaluation_throttle_secs=5)
    for event in (evaluation.Began(0.0), evaluation.Tick(1e9), evaluation.VersionReached(105, asked=True)):
        job.tell(EVALUATION, event)
    assert not job.evaluation.idle
    assert job.version == 0


def test_a_row_of_the_journal_that_lacks_what_was_added_to_its_event_since_is_read(tmp_path):
    lease = ledger.Lease(0, 1, 2)
    row = ["GivenBack", "w", list(lease), 8, 1.0]
    assert ledger.decode(row) == ledger.GivenBack("w", lease, 8, 1.0)
