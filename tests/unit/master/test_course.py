"""What the master does of what its state machines decide, and when."""

import asyncio
from types import SimpleNamespace

from elastic_runtime.master import fleet
from elastic_runtime.master.course import Course
from elastic_runtime.master.job import FLEET, Job
from elastic_runtime.master.tasks import Tasks
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
