"""A job's journal tells it again, whatever happened: the same rows make the same job."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from elastic_runtime.master import evaluation, ledger
from elastic_runtime.master.evaluation import MetricState
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, EXPORT, LISTING, TRAINING, Job, Outcome
from elastic_runtime.master.ledger import Source
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
