"""Below its minimum of workers a job waits: nothing more is handed out, and nothing fails."""

import asyncio
from types import SimpleNamespace

import pytest

from elastic_runtime.master import evaluation, fleet, ledger
from elastic_runtime.master.course import Course
from elastic_runtime.master.desk import Desk
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, EXPORT, FLEET, LISTING, PREDICTION, TRAINING, Job
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.platform.pods import ExitCause, Role, pod_name
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.job import JobSpec

W = [pod_name("j", Role.WORKER, number) for number in range(9)]
GRANTED, WAIT, END = (
    master_pb2.LeaseReply.GRANTED,
    master_pb2.LeaseReply.WAIT,
    master_pb2.LeaseReply.END,
)
DATA = {TRAINING: "training_data", PREDICTION: "prediction_data", EVALUATION: "validation_data"}


class World:
    """A job with its desk; pods that are asked for run when a test says so."""

    def __init__(self, kind=TRAINING, *, records=5120, **options):
        initial = {} if kind == TRAINING else {"checkpoint_dir_for_init": "c"}
        given = {"job_name": "j", "model_def": "m.py", DATA[kind]: "d", "num_workers": 4, "min_workers": 3}
        values = {**given, **initial, **options}
        self.job = Job(JobSpec.make({name: str(value) for name, value in values.items()}, []), lambda _: None)
        self.job.begin({kind: [Source("a", records)]})
        self.job.begin_era(1, Origin("fresh"))
        if kind == EVALUATION:
            self.job.tell(EVALUATION, evaluation.FinalModel(0))
        self.ended = []
        self.course = Course(
            self.job,
            narrator=SimpleNamespace(tell=lambda *_: None, starting=lambda _: None),
            tasks=Tasks(self.ended.append),
            durable=self.at_once,
            finish=self.ended.append,
        )
        self.course.pods = SimpleNamespace(carry_out=lambda _: None)
        self.course.versions = SimpleNamespace(
            senders_changed=lambda: None, home=SimpleNamespace(lost=lambda _: None)
        )
        self.course.members = Members()
        self.desk = self.course.desk = Desk(self.job, tell=self.course.tell, durable=self.at_once)
        self.course.tell(FLEET, fleet.Begin(0.0))

    async def at_once(self):
        return

    def run(self, *numbers):
        for number in numbers:
            self.course.tell(FLEET, fleet.PodRunning(W[number]))

    def end(self, number, cause=ExitCause.PREEMPTED):
        self.course.tell(FLEET, fleet.PodEnded(W[number], cause, 137, "", 1.0))

    async def ask(self, number, *, seconds=0.0):
        request = master_pb2.LeaseRequest(worker=W[number], era=1, wait_seconds=seconds)
        return await self.desk.lease(request, lives=lambda: True)


def played(course):
    async def play():
        async with asyncio.timeout(30):
            return await course()

    return asyncio.run(play())


@pytest.mark.parametrize("kind", DATA)
def test_work_of_any_kind_waits_for_the_minimum_at_the_beginning_and_whenever_too_few_are_left(kind):
    async def course():
        world = World(kind)
        world.run(0, 1)
        assert (await world.ask(0)).answer == WAIT
        world.run(2)
        assert (await world.ask(0)).answer == GRANTED
        world.end(1)
        assert (await world.ask(2)).answer == WAIT
        world.run(4)  # in its place
        assert (await world.ask(2)).answer == GRANTED

    played(course)


def test_whoever_waits_is_answered_the_moment_that_enough_run():
    async def course():
        world = World()
        world.run(0)
        waiting = [asyncio.create_task(world.ask(number, seconds=20.0)) for number in (0, 1, 2)]
        await asyncio.sleep(0)
        world.run(1)
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        world.run(2)
        async with asyncio.timeout(5):
            assert [reply.answer for reply in await asyncio.gather(*waiting)] == [GRANTED] * 3

    played(course)


def test_what_is_in_hand_is_finished_and_counts():
    async def course():
        world = World()
        world.run(0, 1, 2)
        held = await world.ask(0)
        world.end(1)
        done = master_pb2.ReportRequest(worker=W[0], key=held.key, finished=master_pb2.Finished(version=8))
        assert (await world.desk.report(done, accepted=lambda: None)).accepted
        assert world.job.main.records_done == 512

    played(course)


@pytest.mark.parametrize("options", [{"min_workers": 1}, {"num_workers": 0}])
def test_one_worker_is_enough_where_no_more_are_asked_for_or_they_come_by_hand(options):
    async def course():
        assert (await World(**options).ask(0)).answer == GRANTED, "be its pod not yet known to run"

    played(course)


def test_workers_that_leave_as_all_is_done_hold_up_nothing_that_is_left():
    """The model went back when two had left: the others do what is to be done again."""

    async def course():
        world = World()
        world.run(0, 1, 2, 3)
        for number in (2, 3):
            world.course.tell(FLEET, fleet.WorkerLeft(W[number], "completed"))
            world.end(number, ExitCause.COMPLETED)
        assert (await world.ask(0)).answer == GRANTED

    played(course)


def test_the_last_ones_hear_that_all_is_done_though_too_few_are_left():
    async def course():
        world = World(records=512)
        world.run(0, 1, 2)
        held = await world.ask(0)
        world.end(1)
        world.end(2)
        done = master_pb2.ReportRequest(worker=W[0], key=held.key, finished=master_pb2.Finished(version=8))
        await world.desk.report(done, accepted=lambda: None)
        assert (await world.ask(0)).answer == END

    played(course)


def test_only_what_the_job_is_about_waits():
    async def course():
        job = World().job
        job.begin({name: [Source(name, 1)] for name in (LISTING, EVALUATION, EXPORT)})
        return [name for name in (LISTING, TRAINING, EVALUATION, EXPORT) if job.held_back(name)]

    assert played(course) == [TRAINING]


def test_a_minimum_that_was_met_is_met_for_the_next_master():
    async def course():
        world = World()
        world.run(0, 1, 2)
        heir = Job(world.job.spec, lambda _: None)
        heir.restore(world.job.state())
        return heir

    heir = played(course)
    assert not heir.held_back(TRAINING)
    assert isinstance(heir.tell(TRAINING, ledger.Ask(W[0], 0.0))[0], ledger.Granted)
