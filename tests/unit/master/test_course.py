"""What the master does of what its state machines decide, and when."""

import asyncio
from types import SimpleNamespace

from elastic_runtime.master import evaluation, fleet, ledger
from elastic_runtime.master.course import Course
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, FLEET, TRAINING, Job, Outcome
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.platform.pods import ExitCause
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.job import JobSpec


class Begun:
    """The course of a job whose pods are only written down, and whose journal waits for `durable`."""

    def __init__(self, folder):
        options = {"job_name": "j", "model_def": "m.py", "training_data": "d", "run_dir": str(folder)}
        spec = JobSpec.make(options | {"num_workers": "2"}, [])
        self.waiting, self.durable = asyncio.Event(), asyncio.Event()
        self.said, self.started, self.problems = [], [], []
        self.job, self.tasks = Job(spec, lambda row: None), Tasks(self.problems.append)
        narrator = SimpleNamespace(
            tell=lambda machine, effect: None, starting=lambda start: self.said.append(start.name)
        )
        self.course = Course(
            self.job, narrator=narrator, tasks=self.tasks, durable=self._durable, finish=self.problems.append
        )
        self.course.pods = SimpleNamespace(carry_out=lambda effect: self.started.append(effect.name))

    async def _durable(self):
        self.waiting.set()
        await self.durable.wait()

    async def until_told(self):
        self.durable.set()
        while self.tasks._running:
            await asyncio.gather(*self.tasks._running)
        assert not self.problems


def in_a_loop(scenario, folder):
    async def run():
        async with asyncio.timeout(60):
            return await scenario(Begun(folder))

    return asyncio.run(run())


def test_no_pod_is_started_or_told_of_before_a_successor_would_know_of_it(tmp_path):
    """It would take a pod in the seat of one that it does not know lost for a stranger."""

    async def scenario(begun):
        begun.course.tell(FLEET, fleet.Begin(0.0))
        await begun.waiting.wait()
        early = [*begun.said, *begun.started]
        await begun.until_told()
        return early, begun.said, begun.started

    early, said, started = in_a_loop(scenario, tmp_path)
    assert early == []
    assert said == started == ["elasticdl-j-ps-0", "elasticdl-j-worker-0", "elasticdl-j-worker-1"]


def test_what_ends_meanwhile_starts_no_pod(tmp_path):
    async def scenario(begun):
        begun.course.tell(FLEET, fleet.Begin(0.0))
        await begun.waiting.wait()
        begun.course.tell(FLEET, fleet.Drain())
        await begun.until_told()
        return begun.started

    assert in_a_loop(scenario, tmp_path) == []


def test_process_whose_pod_has_ended_is_not_heard_again(tmp_path):
    """Its node may be out of reach, and the process go on."""

    async def scenario(begun):
        lost = []
        begun.course.members = members = Members()
        begun.course.versions = SimpleNamespace(home=SimpleNamespace(lost=lost.append))
        begun.course.desk = SimpleNamespace(news=lambda: None)
        begun.job.begin_era(1, Origin("fresh", holders=("of an earlier master",)))
        begun.course.tell(FLEET, fleet.Begin(0.0))
        await begun.until_told()
        for name in begun.started:
            role = master_pb2.ROLE_PS if "-ps-" in name else master_pb2.ROLE_WORKER
            begun.course.tell(FLEET, fleet.PodRunning(name))
            members.join(master_pb2.Member(role=role, name=name, incarnation=name[-4:]))
        server, _, worker = begun.started.copy()
        for name in (server, worker):
            begun.course.tell(FLEET, fleet.PodEnded(name, ExitCause.NODE_LOST, None, "", 1.0))
        await begun.until_told()
        return lost, [members.is_over(name) for name in ("ps-0", "er-0", "er-1", "of an earlier master")]

    lost, over = in_a_loop(scenario, tmp_path)
    assert lost == ["elasticdl-j-ps-0", "elasticdl-j-worker-1"]
    assert over == [True, False, True, True]


async def nothing(*_):
    return


class Trained:
    """A job whose model is trained, up to version 4; its evaluation of that version is under way."""

    def __init__(self, folder):
        options = {"job_name": "j", "model_def": "m.py", "training_data": "d", "run_dir": str(folder)}
        options |= {"validation_data": "v", "evaluation_steps": "4", "records_per_task": "10"}
        self.outcomes, self.problems = [], []
        self.job, self.tasks = Job(JobSpec.make(options, []), lambda row: None), Tasks(self.problems.append)
        self.job.begin({TRAINING: [Source("a", 10)], EVALUATION: [Source("v", 10)]})
        narrator = SimpleNamespace(tell=lambda machine, effect: None, evaluated=lambda: None)
        self.course = course = Course(
            self.job, narrator=narrator, tasks=self.tasks, durable=nothing, finish=self.outcomes.append
        )
        course.desk = SimpleNamespace(news=lambda: None)
        course.versions = SimpleNamespace(free=lambda *_: None, senders_changed=lambda: None)
        self.job.begin_era(1, Origin("fresh"))
        self.job.reach(4)
        course.tell(EVALUATION, evaluation.VersionReached(4))
        course.tell(TRAINING, ledger.Ask("w", 0.0))
        course.tell(TRAINING, ledger.Finished("w", self.job.main.leases("w")[0], 4, 0.0))

    def evaluate(self):
        """What is there to evaluate, if there is anything: a version and the snapshot to take for it."""
        found = []
        while granted := [
            effect
            for effect in self.course.tell(EVALUATION, ledger.Ask("w", 0.0))
            if isinstance(effect, evaluation.Granted)
        ]:
            [part] = granted
            found.append((part.version, part.snapshot))
            done = (
                evaluation.PartDone("w", part.lease, (), 0.0)
                if part.kind is evaluation.Kind.SHARD
                else evaluation.ResultReported("w", part.lease, {"a": 1.0}, 0.0)
            )
            self.course.tell(EVALUATION, done)
        return found


def test_finished_model_is_evaluated_though_the_snapshot_that_was_to_stand_for_it_is_lost(tmp_path):
    async def found():
        trained = Trained(tmp_path)
        trained.course.tell(EVALUATION, evaluation.SnapshotLost(4))
        early = trained.outcomes.copy()
        found = trained.evaluate()
        await trained.tasks.cancel()
        return early, found, trained.outcomes

    assert asyncio.run(found()) == ([], [(4, 0), (4, 0)], [Outcome("succeeded")])


def test_job_whose_last_evaluation_is_left_out_has_ended(tmp_path):
    """Where there are figures of the finished model already, nothing else would say that all is done."""

    async def found():
        trained = Trained(tmp_path)
        trained.job.evaluation._valid.add(4)
        trained.course.tell(EVALUATION, evaluation.SnapshotLost(4))
        await trained.tasks.cancel()
        return trained.outcomes

    assert asyncio.run(found()) == [Outcome("succeeded")]
