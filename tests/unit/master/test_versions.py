"""What is kept of a model on its way, and what is let go when."""

import asyncio
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from elastic_runtime.master import evaluation, ledger
from elastic_runtime.master.checkpoints import Checkpoints
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, TRAINING, Job
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.master.versions import Versions
from elastic_runtime.ps import checkpoint
from elastic_runtime.ps.checkpoint import PartState
from elastic_runtime.rpc.layout import Layout, Variable
from elastic_runtime.spec.job import JobSpec

LAYOUT = Layout((Variable("w", (4,)),), ())


class OneHolder:
    """A home whose only part is written at once."""

    def __init__(self):
        self.dropped, self.senders = [], []
        self.writes, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_come = asyncio.Event()
        self.may_end.set()
        self.may_come.set()

    async def save(self, version, directory):
        values = np.zeros(4, np.float32)
        state = PartState(
            layout=LAYOUT,
            optimizer={"name": "SGD"},
            version=version,
            weights=values,
            state=values[:0],
            slots={},
            step=version,
        )
        checkpoint.write_part(directory, 0, 1, state)
        self.writes.set()
        await self.may_end.wait()
        return version

    async def drop_snapshot(self, version):
        self.dropped.append(version)

    async def snapshot(self):
        return 15

    def resume(self, era, origin):
        """It is there."""

    async def back(self):
        await self.may_come.wait()

    async def set_senders(self, workers):
        self.senders.append(workers)


def begun(folder, said, durable, home=None, **options):
    """What is kept of a model that is saved each ten versions."""
    options |= {"job_name": "j", "model_def": "m.py", "training_data": "d", "run_dir": str(folder)}
    saving = {"checkpoint_dir": str(folder), "checkpoint_steps": "10", "keep_checkpoint_max": "1"}
    options = saving | options
    job = Job(JobSpec.make(options, []), lambda row: None)
    job.begin({TRAINING: [Source("a", 40)]})
    job.begin_era(1, Origin("fresh"))
    versions = Versions(
        job,
        tell=job.tell,
        tasks=Tasks(said.append),
        narrator=SimpleNamespace(
            checkpoint=lambda version, seconds, size: said.append(version), era=lambda *_, is_first: None
        ),
        members=Members(),
        token="",
        durable=durable,
        news=lambda: None,
        fail=said.append,
        host="127.0.0.1",
    )
    versions.home = home or OneHolder()
    return versions


def test_a_version_that_is_saved_is_kept_for_that_where_its_evaluation_is_left_out(tmp_path):
    async def found():
        versions = begun(tmp_path, [], nothing, evaluation_steps="1", validation_data="v")
        versions._job.begin({EVALUATION: [Source("v", 10)]})
        versions.home = home = OneHolder()
        home.may_end.clear()

        def tell(machine, event):
            effects = versions._job.tell(machine, event)
            for effect in effects:
                if isinstance(effect, evaluation.EvaluationSkipped):
                    versions.free(effect.version, "evaluation")
            return effects

        versions._tell = tell
        versions.reached(10)
        async with asyncio.timeout(60):
            await home.writes.wait()
            early = home.dropped.copy()
            home.may_end.set()
            await versions.checkpoints.settled()
            await asyncio.sleep(0)  # lets the task that drops the snapshot begin
        return early, home.dropped

    assert asyncio.run(found()) == ([], [10])


def test_snapshots_of_versions_that_were_evaluated_before_the_model_went_back_are_let_go(tmp_path):
    """They are reached again and not evaluated again: whoever holds the model would keep them for ever."""

    async def found():
        options = {"evaluation_steps": "1", "checkpoint_steps": "0", "validation_data": "v"}
        versions = begun(tmp_path, [], nothing, home := OneHolder(), **options)
        versions._job.begin({EVALUATION: [Source("v", 10)]})
        judge = versions._job.evaluation
        versions.reached(1)
        granted = judge.handle(ledger.Ask("w", 0.0))[0]
        judge.handle(evaluation.PartDone("w", granted.lease, (), 0.0))
        granted = judge.handle(ledger.Ask("w", 0.0))[0]
        judge.handle(evaluation.ResultReported("w", granted.lease, {"a": 1.0}, 0.0))
        await versions._begin_era(2, Origin("copy"))
        versions.reached(2)
        await asyncio.sleep(0)  # lets the task that drops a snapshot begin
        return judge.snapshots(), home.dropped

    assert asyncio.run(found()) == ([2], [1])


@pytest.mark.parametrize("keeps", [0, 1])
def test_a_checkpoint_that_goes_while_it_is_looked_at_is_not_the_newest(tmp_path, keeps):
    """`newest` is what the journal knows; when it is asked again, version 20 is there and 10 is pruned."""
    folder, known = tmp_path / "version-10", []

    def newest():
        known.append(10 if not known else 20)
        if known == [10]:
            saved(tmp_path, 10)
            if keeps:  # of its files: gone in the midst
                (folder / "ledger.json").unlink()
            else:
                shutil.rmtree(folder)
            saved(tmp_path, 20)
        return known[-1]

    checkpoints = Checkpoints(
        tmp_path,
        run=lambda: "r",
        era=lambda: 1,
        newest=newest,
        keep=1,
        initial="",
        ledger_at=lambda version: {},
        saved=nothing,
        passed_over=lambda version: None,
    )
    origin = checkpoints.find()
    assert origin is not None
    assert origin.version == 20


def saved(folder, version):
    growing = folder / f".version-{version}.x"
    growing.mkdir()
    asyncio.run(OneHolder().save(version, growing))
    checkpoint.finish(growing, folder / f"version-{version}", version, {"epoch": 1}, run="r")


async def nothing(*_):
    return


@pytest.mark.parametrize(("on_record", "left"), [(10, ["version-10"]), (20, ["version-10", "version-20"])])
def test_what_was_saved_beyond_the_version_that_an_era_begins_with_is_no_checkpoint_of_it(
    tmp_path, on_record, left
):
    """Unless it is on record: then it could only not be read a moment ago."""

    async def found():
        versions = begun(tmp_path, [], nothing)
        versions._job.begin_run("r")
        versions._job.save(on_record)
        await versions._begin_era(2, Origin("checkpoint", version=10))

    for version in (10, 20):
        saved(tmp_path, version)
    asyncio.run(found())
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_of_a_checkpoint_that_a_job_ends_in_the_midst_of_nothing_is_left(tmp_path):
    async def found():
        versions = begun(tmp_path, [], lambda: None, home := OneHolder())
        home.may_end.clear()
        versions.reached(10)
        async with asyncio.timeout(60):
            await home.writes.wait()
            growing = [path.name for path in tmp_path.iterdir()]
            await versions.checkpoints.close()
        return growing, [*tmp_path.iterdir()]

    [growing], left = asyncio.run(found())
    assert growing.startswith(".version-10.")
    assert left == []


def test_a_checkpoint_of_a_model_that_went_back_meanwhile_is_none(tmp_path, monkeypatch):
    """Else the job would take the model for further than it is."""

    async def found():
        versions = begun(tmp_path, [], nothing)
        finish = checkpoint.finish

        def finish_late(*given, **how):
            finish(*given, **how)
            versions._job.begin_era(2, Origin("copy", version=5))

        monkeypatch.setattr(checkpoint, "finish", finish_late)
        versions.reached(10)
        await versions.checkpoints.settled()
        return versions._job.version, versions._job.saved_version

    assert asyncio.run(found()) == (5, None)
    assert [*tmp_path.iterdir()] == []


def test_what_a_checkpoint_stands_in_for_is_let_go_once_the_next_master_would_know_of_it(tmp_path):
    """It would ask for that version again, whose snapshot is gone, and know of none but the one before."""

    async def found():
        waiting, durable, said = asyncio.Event(), asyncio.Event(), []

        async def commit():
            waiting.set()
            await durable.wait()

        versions = begun(tmp_path, said, commit, home := OneHolder())

        def state():
            kept = sorted(path.name for path in tmp_path.glob("version-*"))
            return said.copy(), home.dropped.copy(), kept

        async with asyncio.timeout(60):
            durable.set()
            versions.reached(10)
            await versions.checkpoints.settled()
            durable.clear()
            waiting.clear()
            versions.reached(20)
            await waiting.wait()
            early = state()
            durable.set()
            await versions.checkpoints.settled()
            await asyncio.sleep(0)  # lets the task that drops the snapshot begin
        return early, state()

    assert asyncio.run(found()) == (
        ([10], [10], ["version-10", "version-20"]),
        ([10, 20], [10, 20], ["version-20"]),
    )


@pytest.mark.parametrize(("due", "newest"), [(10, 15), (20, 20)])
def test_what_is_due_while_the_present_state_is_saved_never_takes_the_place_of_a_newer_one(
    tmp_path, due, newest
):
    async def found():
        versions = begun(tmp_path, [], nothing, home := OneHolder())
        home.may_end.clear()
        versions._job.reach(due - 1)
        saving = asyncio.create_task(versions.save_now())
        async with asyncio.timeout(60):
            await home.writes.wait()
            versions.reached(due)
            for _ in range(3):  # whoever does not wait begins to write
                await asyncio.sleep(0)
            growing = len([*tmp_path.iterdir()])
            home.may_end.set()
            await saving
            await versions.checkpoints.settled()
            await asyncio.sleep(0)  # lets the task that drops the snapshot begin
        return growing, versions._job.saved_version, home.dropped

    assert asyncio.run(found()) == (1, newest, [due])
    assert [path.name for path in tmp_path.iterdir()] == [f"version-{newest}"]


def test_a_new_master_tells_the_holders_who_trains_whatever_the_last_one_told_them(tmp_path):
    """They may know of a worker that was lost together with the last master."""

    async def told():
        versions = begun(tmp_path, [], nothing, home := OneHolder())
        versions.resume()
        await asyncio.sleep(0)
        return home.senders

    assert asyncio.run(told()) == [[]]


@pytest.mark.parametrize(
    ("saved", "version", "meanwhile", "outcome"),
    [
        (None, 12, 12, ([10], [10])),
        (20, 32, 32, ([30], [10, 20, 30])),
        (10, 12, 12, ([], [10])),
        (None, 9, 9, ([], [])),
        (None, 12, 21, ([20], [10, 20])),
    ],
)
def test_a_checkpoint_that_the_last_master_did_not_come_to_is_written_by_the_next(
    tmp_path, saved, version, meanwhile, outcome
):
    """Its snapshot would stay for ever; so would one that the last master was about to let go."""

    async def found():
        versions = begun(tmp_path, said := [], nothing, home := OneHolder())
        job = versions._job
        job.saved_version = saved
        job.reach(version)
        home.may_come.clear()
        versions.resume()
        versions.reached(meanwhile)
        if meanwhile != version:
            await versions.checkpoints.settled()
        home.may_come.set()
        for _ in range(10):
            await asyncio.sleep(0)
        await versions.checkpoints.settled()
        await asyncio.sleep(0)  # lets the task that drops the snapshot begin
        return said, sorted(home.dropped)

    assert asyncio.run(found()) == outcome


def test_what_was_due_in_an_era_that_is_over_is_not_written(tmp_path):
    async def found():
        versions = begun(tmp_path, said := [], nothing, home := OneHolder())
        versions._job.reach(12)
        home.may_come.clear()
        versions.resume()
        versions._job.begin_era(2, Origin("copy", version=11))
        home.may_come.set()
        for _ in range(10):
            await asyncio.sleep(0)
        await versions.checkpoints.settled()
        return said, home.dropped

    assert asyncio.run(found()) == ([], [])
