"""The master: puts the pieces of a job together and sees it from its beginning to its end.

One asyncio loop. `run` prepares a job, or finds it where an earlier master left it, and returns the exit
code.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.master import evaluation, fleet, ledger, prepare
from elastic_runtime.master.checkpoints import checkpoint_origin
from elastic_runtime.master.commands import command
from elastic_runtime.master.course import Course
from elastic_runtime.master.desk import Desk
from elastic_runtime.master.front import Front
from elastic_runtime.master.home import HeldHome, ReplicatedHome, StaticHome
from elastic_runtime.master.job import EVALUATION, FLEET, Job, Outcome, Sources
from elastic_runtime.master.journal import Journal
from elastic_runtime.master.members import Members
from elastic_runtime.master.narrator import Display, Narrator
from elastic_runtime.master.pods import Pods
from elastic_runtime.master.service import Service
from elastic_runtime.master.surroundings import LOOPBACK, Surroundings, on_this_machine
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.master.versions import Versions
from elastic_runtime.observe import log as logs
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.platform.no_room import NoRoom
from elastic_runtime.platform.overtaken import Overtaken
from elastic_runtime.platform.pods import BEGIN_ANEW, EXIT_DRAINED, Pod, PodSpec, Role, pod_name
from elastic_runtime.platform.process.claim import Claim, claim
from elastic_runtime.platform.process.platform import ProcessPlatform
from elastic_runtime.platform.process.turn import claim_in_turn
from elastic_runtime.rpc import channel, master_pb2, master_pb2_grpc
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.pairs import envs

log = logging.getLogger(__name__)

ASIDE = "aside"
"""Not an end of the job: this master makes room for another that goes on with it."""
CLAIM_SECONDS = 60.0
"""How long a master in a cluster waits for the one before it, which may be cut off and know nothing of it."""
STOP_SECONDS = 4.0
GOODBYE_SECONDS = 15.0
DRAIN_SECONDS = 60.0
EXIT = {"succeeded": 0, "failed": 1, "stopped": 130, ASIDE: EXIT_DRAINED}


def run(spec: JobSpec, display: Display | None = None, *, in_step: bool = False) -> int:
    """See a job through, here or in this pod's cluster. Raises `InputError` before anything was started, and
    `Overtaken` if the job goes on with another master: nothing of it is this one's any more.

    `in_step`: this process is a pipeline's step in a pod. Whatever ends it from outside has it run again, and
    what the cluster keeps of a job that has succeeded is the caller's to remove.
    """
    prepare.can_run(spec)
    folder, in_cluster = Path(spec.run_dir), spec.platform == "kubernetes"
    with contextlib.ExitStack() as claims:
        for claimed in prepare.folders_of_its_own(spec):
            claims.enter_context(_claim(claimed, spec, keep=claimed == folder))
        if in_cluster:
            prepare.begin_anew_once(folder, os.environ.get(BEGIN_ANEW, ""))
        elif spec.restart:
            asyncio.run(ProcessPlatform(folder, spec.job_name).stop_all(STOP_SECONDS))
            prepare.begin_anew(folder)
        prepare.same_work(folder, spec)
        if spec.checkpoint_dir_for_init:
            checkpoint_origin(Path(spec.checkpoint_dir_for_init))
        find_sources = functools.partial(prepare.find_sources, spec)
        if not in_cluster and not (folder / prepare.JOURNAL_FILE).exists():
            found = find_sources()  # what is wrong with the data is said before anything is written
            find_sources = functools.partial(lambda kept: kept, found)
        prepare.keep_spec(folder, spec)
        logs.set_up(spec.log_level, file=folder / "logs" / f"{pod_name(spec.job_name, Role.MASTER)}.log")
        return asyncio.run(_run(spec, find_sources, display, in_step=in_step))


def _claim(folder: Path, spec: JobSpec, *, keep: bool) -> Claim:
    if spec.platform == "kubernetes":
        return claim_in_turn(folder, spec.job_name, keep=keep, seconds=CLAIM_SECONDS)
    return claim(folder, spec.job_name, keep=keep)


async def _run(
    spec: JobSpec, find_sources: Callable[[], Sources], display: Display | None, *, in_step: bool
) -> int:
    return await Master(spec, _surroundings(spec, in_step=in_step), display).run(find_sources)


def _surroundings(spec: JobSpec, *, in_step: bool) -> Surroundings:
    if spec.platform == "process":
        return on_this_machine(spec, in_step=in_step)
    from elastic_runtime.master.in_cluster import in_a_pod  # needs the package `kubernetes`

    return in_a_pod(spec, in_step=in_step)


class Master:
    """One job's master, from its start to its end."""

    def __init__(self, spec: JobSpec, surroundings: Surroundings, display: Display | None = None) -> None:
        self._spec, self._folder = spec, Path(spec.run_dir)
        self._surroundings, self._token = surroundings, surroundings.token
        self._ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._stopping = ""
        self._again = False
        self._overtaken: Overtaken | None = None
        self._unwritten = ""  # why the journal cannot be written, as far as said
        self._journal = Journal(surroundings.store, state=lambda: self._job.state())  # noqa: PLW0108 - made below
        self._tasks = Tasks(self._fail)
        self._job = Job(spec, self._journal.append)
        self._members = Members()
        self._narrator = Narrator(spec, self._folder, self._job, display)
        durable = self._commit
        self._course = Course(
            self._job, narrator=self._narrator, tasks=self._tasks, durable=durable, finish=self._finish
        )
        tell = self._course.tell
        self._desk = Desk(self._job, tell=tell, durable=durable)
        self._versions = Versions(
            self._job,
            tell=tell,
            tasks=self._tasks,
            narrator=self._narrator,
            members=self._members,
            token=self._token,
            durable=durable,
            news=self._desk.news,
            fail=lambda why: self._finish(Outcome("failed", why)),
            host=surroundings.host,
        )
        self._pods = Pods(
            surroundings.platform,
            tell=functools.partial(tell, FLEET),
            tasks=self._tasks,
            make_spec=self._pod_spec,
            changed=self._pod_changed,
        )
        self._course.pods, self._course.desk = self._pods, self._desk
        self._course.versions, self._course.members = self._versions, self._members
        self._front = Front(
            self._job,
            course=self._course,
            desk=self._desk,
            members=self._members,
            versions=self._versions,
            pods=self._pods,
            narrator=self._narrator,
            durable=durable,
            finish=self._finish,
            stop=self.stop,
        )

    def _pod_changed(self, pod: Pod, adopted: bool) -> None:
        self._narrator.pod(pod, adopted)
        self._front.pod_changed(pod)

    async def run(self, find_sources: Callable[[], Sources]) -> int:
        """From the journal to the verdict."""
        if self._take_up(find_sources):
            await self._journal.close()
            await self._surroundings.forget(True)
            return 0
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, signal.Signals(number).name)
        server = await self._serve()
        outcome = Outcome("failed", "the master ended before the job did")
        try:
            await self._commit()
            self._narrator.begin()
            self._tasks.spawn(self._course.keep_time())
            self._tasks.spawn(self._narrator.sample_for_ever())
            if self._job.complete:  # an earlier master died between the last report and the verdict
                self._course.tell(FLEET, fleet.Drain())
            await self._pods.begin()
            self._course.end_if_complete()
            outcome = await self._ended
            if outcome.status != ASIDE:
                await self._see_whose_it_is()
        except Overtaken as problem:
            outcome = self._given_over(problem)
        except ElasticError as problem:
            outcome = Outcome("failed", str(problem))
        finally:
            if outcome.status == ASIDE:
                await self._step_aside(server, outcome.error)
            else:
                await self._wind_up(server, outcome)
        if self._overtaken:
            raise self._overtaken
        return EXIT[ASIDE if self._again and outcome.status == "stopped" else outcome.status]

    async def _see_whose_it_is(self) -> None:
        """What a job's end follows from is on its way to the journal: refused there, it is none of ours.

        Pods that look like ours are those of the master that goes on with it.
        """
        try:
            await self._journal.commit()
        except Overtaken:
            raise
        except ElasticError:
            pass  # said already, and no reason to leave pods behind

    def _given_over(self, problem: Overtaken) -> Outcome:
        self._overtaken = problem
        return Outcome(ASIDE, str(problem))

    def _take_up(self, find_sources: Callable[[], Sources]) -> bool:
        """Begin the job, or go on with it; true if there is nothing left to do."""
        if not self._replay():
            self._job.begin_run(uuid.uuid4().hex)
            self._job.begin(find_sources())
            self._begin_static()
            return False
        outcome = self._job.outcome
        if outcome is not None and outcome.status == "succeeded":
            log.info("job %s has succeeded already (--restart begins it anew)", self._spec.job_name)
            self._narrator.over(outcome)
            return True
        if self._job.ended_badly:
            self._job.reopen()
        self._resume(time.time())
        return False

    def _replay(self) -> bool:
        """Bring the job to where its journal ends; false if there is none."""
        snapshot, rows = self._journal.replay()
        if snapshot is not None:
            self._job.restore(snapshot)
        count = 0
        for row in rows:
            self._job.replay(row)
            count += 1
        return snapshot is not None or count > 0

    def _resume(self, now: float) -> None:
        for name, machine in self._job.machines.items():
            if name != FLEET:
                machine.handle(ledger.Resumed(now))
        judge, main = self._job.evaluation, self._job.main
        if judge is not None:
            judge.handle(evaluation.Began(now))
            if main is not None and main.finished:
                self._job.tell(EVALUATION, evaluation.FinalModel(self._job.version))
        self._versions.resume()
        self._narrator.resumed = True

    def _begin_static(self) -> None:
        """Without training the model is there from the beginning, and stays what it is."""
        if isinstance(self._versions.home, StaticHome):
            origin = checkpoint_origin(Path(self._spec.checkpoint_dir_for_init))
            self._job.begin_era(1, origin)
            if self._job.evaluation is not None:
                self._job.tell(EVALUATION, evaluation.FinalModel(origin.version))

    async def _serve(self) -> Any:
        server = channel.server_aio(token=self._token)
        master_pb2_grpc.add_MasterServicer_to_server(Service(self._front), server)  # type: ignore[no-untyped-call]
        listen = self._surroundings.listen
        port = channel.listen(server, listen, self._spec.port, token=self._token)
        await server.start()
        write_atomically(self._folder / prepare.ADDRESS_FILE, f"{LOOPBACK}:{port}")
        log.info("master of job %s listens on %s:%d", self._spec.job_name, listen, port)
        return server

    async def _wind_up(self, server: Any, outcome: Outcome) -> None:
        """Let everybody go, put the end on record, and say it."""
        self._course.tell(FLEET, fleet.Drain())
        if outcome.status == "succeeded":
            await self._versions.save_last()
            self._desk.open()
            if isinstance(self._versions.home, HeldHome):
                self._versions.home.dismiss_spares("the job is done")
            await self._goodbyes(GOODBYE_SECONDS)
        else:  # there is no use in finishing what is in hand
            self._members.tell_workers(
                master_pb2.Order(drain=master_pb2.DrainOrder(reason="the job is over"))
            )
        try:
            await self._pods.stop_all(STOP_SECONDS)
        except ElasticError as problem:  # what the job has come to is the same
            log.warning("left behind: %s", problem)
        await self._let_go(server)
        self._job.end(outcome)
        (self._folder / prepare.ADDRESS_FILE).unlink(missing_ok=True)
        try:
            await self._journal.write_snapshot(self._job.state())
            await self._journal.close()
        except Overtaken:  # a moment ago: what it finds of the job, it goes on with
            raise
        except ElasticError:
            pass  # said already, and the verdict is worth more
        self._narrator.end(outcome)
        await self._surroundings.forget(outcome.status == "succeeded")

    async def _step_aside(self, server: Any, reason: str) -> None:
        """Nothing is ended, nothing is decided: pods go on, and find the next master where this one was."""
        log.info("%s: this master steps aside, its pods wait for the next", reason)
        self._narrator.aside(reason)
        self._desk.close()
        await self._let_go(server)
        try:
            await self._journal.close()
        except Overtaken as problem:
            self._given_over(problem)
        except ElasticError:
            pass  # what was not durable was not answered

    async def _let_go(self, server: Any) -> None:
        await self._tasks.cancel()
        await self._versions.checkpoints.close()
        self._members.end_all()
        await self._versions.home.close()
        await self._pods.close()
        await server.stop(0.2)

    async def _goodbyes(self, seconds: float) -> None:
        """Give workers the time to hear that they are to leave, and to do so by themselves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(self._members.of(master_pb2.ROLE_WORKER)):
                    await self._members.parted()
                await self._pods.workers_gone()

    def _on_signal(self, name: str) -> None:
        if self._surroundings.successor_on_signal:
            self._finish(Outcome(ASIDE, name))
        elif self._stopping:
            log.warning("%s again: stopping at once", name)
            self._finish(Outcome("stopped", f"interrupted twice ({name})"))
        else:
            self._again = self._surroundings.again_after_sigterm and name == "SIGTERM"
            self.stop(f"interrupted ({name})")

    def stop(self, reason: str) -> None:
        """Drain the workers, save, and end as stopped."""
        if not self._stopping:
            self._stopping = self._front.draining = self._narrator.message = reason
            log.info("stopping: %s; workers finish their minibatches, then the model is saved", reason)
            self._tasks.spawn(self._stop())

    async def _stop(self) -> None:
        """A worker that holds the model saves it before it leaves; parameter servers when all have left."""
        self._desk.close()
        self._course.tell(FLEET, fleet.Drain())
        held = isinstance(self._versions.home, HeldHome | ReplicatedHome)
        if held:
            await self._versions.save_now()
        self._members.tell_workers(master_pb2.Order(drain=master_pb2.DrainOrder(reason=self._stopping)))
        await self._goodbyes(DRAIN_SECONDS)
        if not held:
            await self._versions.save_now()
        self._finish(Outcome("stopped", self._stopping))

    def _finish(self, outcome: Outcome) -> None:
        """The first word on how the job ends counts; one that is being stopped does not succeed meanwhile."""
        if not self._ended.done() and not (self._stopping and outcome.status == "succeeded"):
            self._desk.close()
            self._ended.set_result(outcome)

    def _fail(self, problem: BaseException) -> None:
        if isinstance(problem, Overtaken):
            self._finish(self._given_over(problem))
        else:
            self._finish(Outcome("failed", f"the master cannot go on: {problem}"))

    async def _commit(self) -> None:
        """Whoever waits for it hears of an error as of an absence, and asks again."""
        try:
            await self._journal.commit()
        except Overtaken as problem:  # the job goes on elsewhere
            self._fail(problem)
            raise
        except NoRoom as problem:  # nor will there be: to ask again is of no use
            self._finish(Outcome("failed", str(problem)))
            raise
        except ElasticError as problem:
            self._say_unwritten(str(problem))
            raise
        self._unwritten = ""

    def _say_unwritten(self, reason: str) -> None:
        if reason != self._unwritten:
            self._unwritten = reason
            log.warning("work waits, because what is done cannot be put on record: %s", reason)

    def _pod_spec(self, start: fleet.StartPod) -> PodSpec:
        return PodSpec(
            name=start.name,
            job=self._spec.job_name,
            role=start.role,
            index=start.index,
            command=command(self._spec, start, self._surroundings.place),
            env={**envs(self._spec.envs), "ELASTICDL_TOKEN": self._token},
            relaunched_because=start.relaunched_because,
        )
