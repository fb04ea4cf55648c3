"""Who is given which work when, and what is made of what workers say of it."""

import asyncio
import logging
from types import SimpleNamespace

import numpy as np
import pytest

from elastic_runtime.master import ledger
from elastic_runtime.master.course import Course
from elastic_runtime.master.desk import Desk
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, TRAINING, Job, Outcome
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.master.versions import Versions
from elastic_runtime.ps.store import MOST_SNAPSHOTS
from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.tensors import to_tensor
from elastic_runtime.spec.job import JobSpec

AHEAD = 3
"""Leases that a worker holds at a time."""


async def at_once():
    return


class Holder:
    """Keeps the snapshots that fall due until they are dropped."""

    def __init__(self):
        self.kept, self.most = set(), 0

    def keep(self, version):
        self.kept.add(version)
        self.most = max(self.most, len(self.kept))

    async def drop_snapshot(self, version):
        self.kept.discard(version)

    async def set_senders(self, workers):
        pass


class World:
    """A job's desk with all that decides behind it, and workers of three leases each before it."""

    def __init__(self, folder, *, minibatches=8, records=64 * 40, parts=10, **options):
        options |= {"job_name": "j", "model_def": "m.py", "training_data": "d", "validation_data": "v"}
        options |= {"run_dir": str(folder), "minibatch_size": "8", "num_minibatches_per_task": minibatches}
        spec = JobSpec.make({name: str(value) for name, value in options.items()}, [])
        self.said, self.steps = [], spec.evaluation_steps
        self.job, tasks = Job(spec, lambda row: None), Tasks(self.said.append)
        size = spec.records_per_task
        self.job.begin({TRAINING: [Source("a", records)], EVALUATION: [Source("v", parts * size)]})
        self.job.begin_era(1, Origin("fresh"))
        narrator = SimpleNamespace(tell=lambda machine, effect: None, evaluated=lambda: None)
        self.course = Course(
            self.job, narrator=narrator, tasks=tasks, durable=at_once, finish=self.said.append
        )
        self.desk = Desk(self.job, tell=self.course.tell, durable=at_once)
        versions = Versions(
            self.job,
            tell=self.course.tell,
            tasks=tasks,
            narrator=narrator,
            members=Members(),
            token="",
            durable=at_once,
            news=self.desk.news,
            fail=self.said.append,
            host="127.0.0.1",
        )
        versions.home = self.holder = Holder()
        self.course.desk, self.course.versions = self.desk, versions
        self.version = 0
        self._serials = {}

    async def ask(self, worker, *, again=False):
        serial = self._serials[worker] = self._serials.get(worker, 0) + (not again)
        request = master_pb2.LeaseRequest(worker=worker, era=1, serial=serial)
        reply = await self.desk.lease(request, lives=lambda: True)
        return reply if reply.answer == master_pb2.LeaseReply.GRANTED else None

    async def report(self, worker, reply, **what):
        request = master_pb2.ReportRequest(worker=worker, key=reply.key, **what)
        return await self.desk.report(request, accepted=lambda: None)

    async def finish(self, worker, reply):
        finished = master_pb2.Finished(version=self.version)
        if reply.key.kind == master_pb2.EVALUATION:
            state = master_pb2.MetricState(name="accuracy", rule="sum", variables=[to_tensor(np.ones(1))])
            finished.states.append(state)
        if reply.key.kind == master_pb2.EVALUATION_RESULT:
            finished.metrics["accuracy"] = 1.0
        assert (await self.report(worker, reply, finished=finished)).accepted
        await asyncio.sleep(0)  # lets the tasks that drop snapshots begin

    def train_one(self):
        """All workers that train have made a step together."""
        self.version += 1
        if self.version % self.steps == 0:
            self.holder.keep(self.version)
        self.course.versions.reached(self.version)

    async def see_through(self, workers, minibatches):
        """Each worker carries its leases out as it got them; a part of an evaluation takes one step."""
        queues = {f"w{number}": [] for number in range(workers)}
        for _ in range(100_000):
            if self.job.worked_through:
                return
            trained = False
            for worker, queue in queues.items():
                while len(queue) < AHEAD and (reply := await self.ask(worker)):
                    trains = reply.key.kind == master_pb2.TRAINING
                    queue.append([reply, minibatches if trains else 1])
                if queue:
                    queue[0][1] -= 1
                    trained = trained or queue[0][0].key.kind == master_pb2.TRAINING
            if trained:
                self.train_one()
                await asyncio.sleep(0)  # lets the tasks that drop snapshots begin
            for worker, queue in queues.items():
                if queue and not queue[0][1]:
                    await self.finish(worker, queue.pop(0)[0])
        raise AssertionError("it does not come to its end")


@pytest.mark.parametrize(("workers", "steps"), [(2, 20), (1, 10)])
def test_evaluations_that_come_due_faster_than_they_are_done_are_all_done_and_few_snapshots_wait(
    tmp_path, workers, steps
):
    async def found():
        world = World(tmp_path, evaluation_steps=steps, records=64 * 160 * workers)
        await world.see_through(workers, 8)
        return world

    world = asyncio.run(found())
    assert world.holder.most <= MOST_SNAPSHOTS
    assert [*world.job.evaluation.results] == sorted({*range(steps, world.version, steps), world.version})
    assert world.said == [Outcome("succeeded")]


def test_of_evaluations_that_come_due_within_one_shard_those_beyond_the_bound_are_left_out_which_is_said(
    tmp_path, caplog
):
    async def found():
        world = World(tmp_path, evaluation_steps=4, minibatches=128, records=1024 * 10)
        await world.see_through(1, 128)
        return world

    with caplog.at_level(logging.WARNING):
        world = asyncio.run(found())
    assert world.holder.most <= MOST_SNAPSHOTS
    assert world.holder.kept == set(), "what is left out is not kept either"
    assert world.version in world.job.evaluation.results
    [said] = [record.getMessage() for record in caplog.records]
    assert "--evaluation_steps" in said


def test_a_snapshot_that_nobody_keeps_costs_its_evaluation_and_not_the_job(tmp_path, caplog):
    async def found():
        world = World(tmp_path, evaluation_steps=1, parts=2)
        world.train_one()
        first, second = await world.ask("w"), await world.ask("v")
        world.train_one()
        lost = master_pb2.Failed(error="no snapshot of version 1 is kept", snapshot_lost=True)
        for worker, reply in (("w", first), ("v", second)):
            assert (await world.report(worker, reply, failed=lost)).accepted
        await asyncio.sleep(0)  # lets the task that drops the snapshot begin
        return world, await world.ask("w")

    world, next_one = asyncio.run(found())
    assert next_one.version == 2
    assert world.holder.kept == {2}
    assert world.said == []
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "version 1 is not evaluated, nor may be others after it"
    ]


def test_a_question_repeated_while_training_is_held_back_has_the_answer_it_had(tmp_path):
    async def found():
        world = World(tmp_path, evaluation_steps=1)
        first = await world.ask("w")
        while not world.job.evaluation.behind:
            world.train_one()
        again = await world.ask("w", again=True)
        return first, again, await world.ask("w")

    first, again, other = asyncio.run(found())
    assert again == first
    assert (first.key.kind, other.key.kind) == (master_pb2.TRAINING, master_pb2.EVALUATION)


@pytest.mark.parametrize("said", [{"progress": master_pb2.Progress()}, {"finished": master_pb2.Finished()}])
def test_a_worker_that_trains_keeps_the_evaluation_that_waits_behind_it(tmp_path, monkeypatch, said):
    async def found():
        world = World(tmp_path, evaluation_steps=1, lease_timeout=120)
        monkeypatch.setattr("time.time", lambda: 0.0)
        training = await world.ask("w")
        world.train_one()
        evaluation = await world.ask("w")
        assert evaluation.key.kind == master_pb2.EVALUATION
        monkeypatch.setattr("time.time", lambda: 100.0)
        assert (await world.report("w", training, **said)).accepted
        late = world.job.machines[EVALUATION].overdue(121.0)
        return late, world.job.machines[EVALUATION].overdue(221.0)

    assert asyncio.run(found()) == ([], ["w"])


def test_a_worker_that_evaluates_keeps_the_training_that_waits_behind_it(tmp_path, monkeypatch):
    async def found():
        world = World(tmp_path, evaluation_steps=1, lease_timeout=120)
        monkeypatch.setattr("time.time", lambda: 0.0)
        world.train_one()
        evaluation = await world.ask("w")
        world.course.tell(TRAINING, ledger.Ask("w", 0.0))
        monkeypatch.setattr("time.time", lambda: 100.0)
        await world.report("w", evaluation, progress=master_pb2.Progress())
        return world.job.machines[TRAINING].overdue(121.0)

    assert asyncio.run(found()) == []


def test_a_report_that_is_refused_renews_nothing(tmp_path, monkeypatch):
    async def found():
        world = World(tmp_path, evaluation_steps=1, lease_timeout=120)
        monkeypatch.setattr("time.time", lambda: 0.0)
        training = await world.ask("w")
        world.course.tell(TRAINING, ledger.Expire("w"))
        world.train_one()
        await world.ask("w")
        monkeypatch.setattr("time.time", lambda: 100.0)
        assert not (await world.report("w", training, progress=master_pb2.Progress())).accepted
        return world.job.machines[EVALUATION].overdue(121.0)

    assert asyncio.run(found()) == ["w"]
