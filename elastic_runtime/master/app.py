"""The master: one asyncio loop that turns what happens into events for the job's state machines, and what they decide
into pods, orders, journal rows and answers.

`run` prepares a job, or finds it where an earlier master left it, sees it to its end and returns the exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.master import evaluation, fleet, ledger, prepare
from elastic_runtime.master.checkpoints import Checkpoints, checkpoint_origin
from elastic_runtime.master.commands import command
from elastic_runtime.master.desk import Desk, loss_of
from elastic_runtime.master.home import HeldHome, Origin, ServedHome, StaticHome
from elastic_runtime.master.job import EVALUATION, EXPORT, FLEET, LISTING, TRAINING, Job, Outcome
from elastic_runtime.master.journal import Journal
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Connection, Members
from elastic_runtime.master.narrator import Display, Narrator
from elastic_runtime.master.pods import Pods
from elastic_runtime.master.service import Service
from elastic_runtime.observe import log as logs
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.platform.pods import Platform, PodSpec, Role, pod_name
from elastic_runtime.platform.process.claim import claim
from elastic_runtime.platform.process.platform import ProcessPlatform
from elastic_runtime.rpc import channel, master_pb2, master_pb2_grpc
from elastic_runtime.spec.job import JobSpec, Kind
from elastic_runtime.spec.pairs import envs

log = logging.getLogger(__name__)

STOP_SECONDS = 4.0
GOODBYE_SECONDS = 15.0
DRAIN_SECONDS = 60.0
MISSING_SECONDS = 15.0
SNAPSHOT_ROWS = 20_000
EXIT = {"succeeded": 0, "failed": 1, "stopped": 130}


def run(spec: JobSpec, display: Display | None = None) -> int:
    """See a job through on this machine. Raises `InputError` before anything was started."""
    folder = Path(spec.run_dir)
    with claim(folder, spec.job_name):
        if spec.restart:
            prepare.begin_anew(folder)
        prepare.same_work(folder, spec)
        sources = functools.partial(prepare.find_sources, spec)
        if not (folder / prepare.JOURNAL_FILE).exists():
            found = sources()
            sources = functools.partial(lambda kept: kept, found)
        prepare.keep_spec(folder, spec)
        logs.set_up(spec.log_level, file=folder / "logs" / f"{pod_name(spec.job_name, Role.MASTER)}.log")
        return asyncio.run(Master(spec, ProcessPlatform(folder, spec.job_name), sources, display).run())


class Master:
    """One job's master, from its start to its end."""

    def __init__(
        self,
        spec: JobSpec,
        platform: Platform,
        find_sources: Callable[[], Any],
        display: Display | None = None,
    ) -> None:
        self._spec, self._folder = spec, Path(spec.run_dir)
        self._find_sources = find_sources
        self._token = prepare.token(self._folder)
        self._journal = Journal(self._folder / prepare.JOURNAL_FILE)
        self._rows = 0
        self._job = Job(spec, self._record)
        self._members = Members()
        self._desk = Desk(self._job, tell=self._tell, durable=self._journal.commit)
        self._narrator = Narrator(spec, self._folder, self._job, display)
        self._checkpoints = Checkpoints(
            Path(spec.checkpoint_dir),
            keep=spec.keep_checkpoint_max,
            initial=spec.checkpoint_dir_for_init,
            ledger_at=lambda version: self._job.machines[TRAINING].state_at(version),
            saved=self._checkpoint_saved,
            passed_over=lambda version: self._free(version, "checkpoint"),
        )
        self._home = self._make_home()
        self._pods = Pods(
            platform,
            tell=functools.partial(self._tell, FLEET),
            make_spec=self._pod_spec,
            changed=self._narrator.pod,
            failed=lambda problem: self._finish(Outcome("failed", f"the master cannot go on: {problem}")),
        )
        self._address = ""
        self._senders: frozenset[str] = frozenset()
        self._needed: dict[int, set[str]] = {}  # snapshots, and what for
        self._timer = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._missing: dict[str, asyncio.TimerHandle] = {}
        self._incarnations: dict[str, str] = {}
        self._tracebacks: set[str] = set()
        self._stopping = ""
        self._ended: asyncio.Future[Outcome] | None = None

    # -- life ---------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """From the journal to the verdict."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        if self._take_up():
            await self._journal.close()
            return 0
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, signal.Signals(number).name)
        server = await self._serve()
        outcome = Outcome("failed", "the master ended before the job did")
        try:
            await self._journal.commit()
            self._narrator.begin()
            self._spawn(self._keep_time())
            self._spawn(self._narrator.sample_for_ever())
            await self._pods.begin()
            outcome = await self._ended
        except ElasticError as problem:
            outcome = Outcome("failed", str(problem))
        finally:
            await self._wind_up(server, outcome)
        return EXIT[outcome.status]

    def _take_up(self) -> bool:
        """Begin the job, or go on with it; true if there is nothing left to do."""
        snapshot, rows = self._journal.replay()
        resumed = False
        if snapshot is not None:
            self._job.restore(snapshot)
            resumed = True
        for row in rows:
            self._job.replay(row)
            resumed = True
        if not resumed:
            self._job.begin(self._find_sources())
            self._begin_static()
            return False
        outcome = self._job.outcome
        if outcome is not None and outcome.status == "succeeded":
            log.info(
                "job %s has succeeded already, on an earlier run: nothing to do (--restart begins it anew)",
                self._spec.job_name,
            )
            self._narrator.verdict()
            return True
        if outcome is not None:
            self._job.reopen()
        now = time.time()
        for name, machine in self._job.machines.items():
            if name != FLEET:
                machine.handle(ledger.Resumed(now))
            if name == EVALUATION:
                machine.handle(evaluation.Began(now))
        if self._job.evaluation is not None and self._job.main is not None and self._job.main.finished:
            self._job.tell(EVALUATION, evaluation.FinalModel(self._job.version))
        if isinstance(self._home, ServedHome | HeldHome) and self._job.era:
            self._home.resume(self._job.era, self._job.origin)
        self._narrator.resumed = True
        return False

    def _begin_static(self) -> None:
        """Without training the model is there from the beginning, and stays what it is."""
        if isinstance(self._home, StaticHome):
            origin = checkpoint_origin(Path(self._spec.checkpoint_dir_for_init))
            self._job.begin_era(1, origin)
            if self._job.evaluation is not None:
                self._job.tell(EVALUATION, evaluation.FinalModel(origin.version))

    async def _serve(self) -> Any:
        server = channel.server_aio(token=self._token)
        master_pb2_grpc.add_MasterServicer_to_server(Service(self), server)  # type: ignore[no-untyped-call]
        port = channel.listen(server, "127.0.0.1", self._port(), token=self._token)
        await server.start()
        self._address = f"127.0.0.1:{port}"
        write_atomically(self._folder / prepare.ADDRESS_FILE, self._address)
        log.info("master of job %s listens on %s", self._spec.job_name, self._address)
        return server

    def _port(self) -> int:
        """The port asked for, else that of the master before, if it is free."""
        if self._spec.port:
            return self._spec.port
        return 0

    async def _wind_up(self, server: Any, outcome: Outcome) -> None:
        """Let everybody go, put the end on record, and say it."""
        self._tell(FLEET, fleet.Drain())
        if outcome.status == "succeeded":
            await self._goodbyes()
        await self._pods.stop_all(STOP_SECONDS if outcome.status != "succeeded" else 2.0)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._members.end_all()
        await self._home.close()
        await self._pods.close()
        await server.stop(0.2)
        self._job.end(outcome)
        (self._folder / prepare.ADDRESS_FILE).unlink(missing_ok=True)
        with contextlib.suppress(ElasticError):
            await self._journal.write_snapshot(self._job.state())
            await self._journal.close()
        self._narrator.end(outcome)

    async def _goodbyes(self) -> None:
        """Give workers the time to hear that all is done and to leave by themselves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                while any(self._members.of(master_pb2.ROLE_WORKER)):
                    await self._members.parted()
                await self._pods.workers_gone()

    # -- signals and stopping -----------------------------------------------------------------------------------

    def _on_signal(self, name: str) -> None:
        if self._stopping:
            log.warning("%s again: stopping at once", name)
            self._finish(Outcome("stopped", f"interrupted twice ({name})"))
        else:
            self.stop(f"interrupted ({name})")

    def stop(self, reason: str) -> None:
        """Drain the workers, save, and end as stopped."""
        if not self._stopping:
            self._stopping = reason
            log.info("stopping: %s; workers finish their minibatches, then the model is saved", reason)
            self._spawn(self._stop())

    async def _stop(self) -> None:
        self._desk.closed = True
        self._tell(FLEET, fleet.Drain())
        held = isinstance(self._home, HeldHome)
        if held and self._spec.training_data:
            await self._checkpoints.save_now(self._home)
        self._members.tell_workers(master_pb2.Order(drain=master_pb2.DrainOrder(reason=self._stopping)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while any(self._members.of(master_pb2.ROLE_WORKER)):
                    await self._members.parted()
        if not held and self._spec.training_data:
            await self._checkpoints.save_now(self._home)
        self._finish(Outcome("stopped", self._stopping))

    def _finish(self, outcome: Outcome) -> None:
        assert self._ended is not None
        if not self._ended.done():
            self._ended.set_result(outcome)

    # -- events in, effects out ---------------------------------------------------------------------------------

    def _record(self, row: list[Any]) -> None:
        self._journal.append(row)
        self._rows += 1
        if self._rows >= SNAPSHOT_ROWS:
            self._rows = 0
            self._spawn(self._journal.write_snapshot(self._job.state()))

    def _tell(self, machine: str, event: Any) -> list[Any]:
        """Let a machine take an event and do what follows from it."""
        effects = self._job.tell(machine, event)
        for effect in effects:
            self._follow(machine, effect)
        if machine == TRAINING and effects:
            self._update_senders()
        if effects:
            self._timer.set()
        return effects

    def _follow(self, machine: str, effect: Any) -> None:
        self._narrator.tell(machine, effect)
        match effect:
            case fleet.StartPod() | fleet.StopPod():
                self._pods.carry_out(effect)
            case fleet.WorkerGone(name, _):
                self._worker_gone(name)
            case fleet.PsLost(_, name):
                self._home.lost(name)
            case fleet.FailJob(reason):
                self._finish(Outcome("failed", reason))
            case ledger.JobFailed(shard, attempts, error):
                where = f"records {shard.start}-{shard.end} of {shard.source}"
                tries = f" (attempt {attempts})" if attempts > 1 else ""
                self._finish(Outcome("failed", f"{where}: {error}{tries}"))
            case ledger.AllFinished():
                self._machine_finished(machine)
            case ledger.Requeued() | evaluation.EvaluationStarted() | evaluation.ResultWanted():
                self._desk.news()
            case evaluation.EvaluationFinished(version, _):
                self._free(version, "evaluation")
                self._desk.news()
                self._end_if_complete()
            case evaluation.SnapshotWanted():
                self._spawn(self._take_snapshot())

    def _machine_finished(self, machine: str) -> None:
        if machine == TRAINING and self._job.evaluation is not None:
            self._tell(EVALUATION, evaluation.FinalModel(self._job.version))
        self._desk.news()
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self._job.complete and not self._stopping:
            self._desk.news()
            self._finish(Outcome("succeeded"))

    def _update_senders(self) -> None:
        senders = frozenset(self._job.machines[TRAINING].training_workers())
        if senders != self._senders:
            self._senders = senders
            self._spawn(self._home.set_senders(sorted(senders)))

    def _worker_gone(self, name: str) -> None:
        """Its leases are free again; if it held the model, that is gone too."""
        self._incarnations.pop(name, None)
        for machine in (LISTING, EVALUATION, TRAINING, "prediction", EXPORT):
            if machine in self._job.machines:
                self._tell(machine, ledger.WorkerLost(name))
        self._home.lost(name)
        self._desk.news()

    async def _keep_time(self) -> None:
        """Tell each machine when a deadline of its own has come."""
        while True:
            self._timer.clear()
            now = time.time()
            deadlines = [machine.next_deadline() for machine in self._job.machines.values()]
            soonest = min((d for d in deadlines if d is not None), default=None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(
                    self._timer.wait(), None if soonest is None else max(0.05, soonest - now)
                )
            self._tick(time.time())

    def _tick(self, now: float) -> None:
        for name, machine in list(self._job.machines.items()):
            if name == FLEET:
                self._tell(FLEET, fleet.Tick(now))
                continue
            for worker in machine.overdue(now):
                log.warning(
                    "%s made no progress for %g s: its work goes to others", worker, self._spec.lease_timeout
                )
                self._tell(name, ledger.Expire(worker))
            if name == EVALUATION:
                self._tell(name, evaluation.Tick(now))

    # -- versions, snapshots, checkpoints -----------------------------------------------------------------------

    def _reached(self, version: int) -> None:
        """The model is at this version: open what is due by now."""
        before, spec = self._job.version, self._spec
        if version <= before:
            return
        self._job.reach(version)
        if self._job.evaluation is not None:
            for due in _multiples(spec.evaluation_steps, before, version):
                self._needed.setdefault(due, set()).add("evaluation")
                self._tell(EVALUATION, evaluation.VersionReached(due))
        for due in _multiples(spec.checkpoint_steps, before, version):
            self._needed.setdefault(due, set()).add("checkpoint")
            self._checkpoints.request(due, self._home)
        if spec.max_step and version >= spec.max_step:
            self._tell(TRAINING, ledger.StopHandingOut(f"max_step {spec.max_step} reached"))

    def _free(self, version: int, use: str) -> None:
        """A snapshot is needed no more for this use; when for none, its holder may forget it."""
        uses = self._needed.get(version)
        if uses is not None:
            uses.discard(use)
            if not uses:
                del self._needed[version]
                self._spawn(self._home.drop_snapshot(version))

    async def _take_snapshot(self) -> None:
        try:
            version = await self._home.snapshot()
        except ElasticError as problem:
            log.warning("no snapshot could be taken for an evaluation: %s", problem)
            return
        self._needed.setdefault(version, set()).add("evaluation")
        self._tell(EVALUATION, evaluation.VersionReached(version))

    def _checkpoint_saved(self, version: int, seconds: float, size: int) -> None:
        self._job.save(version)
        self._free(version, "checkpoint")
        self._narrator.checkpoint(version, seconds, size)

    async def _begin_era(self, era: int, origin: Origin) -> None:
        """A consistent model is there: the ledger goes back with it, and work may be handed out."""
        effects = self._job.begin_era(era, origin)
        again = sum(e.again for e in effects if isinstance(e, ledger.RolledBack))
        self._senders = frozenset()
        self._needed.clear()
        if self._job.evaluation is not None:
            self._tell(EVALUATION, evaluation.SnapshotLost())
            self._tell(EVALUATION, evaluation.Began(time.time()))
        await self._journal.commit()
        self._narrator.era(era, origin, again)
        self._desk.news()

    def _make_home(self) -> Any:
        if self._spec.kind is not Kind.TRAINING:
            return StaticHome(self._spec.checkpoint_dir_for_init)
        if self._spec.distribution_strategy == "Local":
            return HeldHome(self._members, self._checkpoints.find, self._begin_era)
        return ServedHome(
            self._spec.num_ps_pods or 1,
            members=self._members,
            token=self._token,
            find_checkpoint=self._checkpoints.find,
            begin_era=self._begin_era,
        )

    # -- what members say (service.Answers) ---------------------------------------------------------------------

    def joined(self, member: master_pb2.Member) -> Connection:
        """A parameter server or worker is there."""
        timer = self._missing.pop(member.name, None)
        if timer is not None:
            timer.cancel()
        before = self._incarnations.get(member.name, member.incarnation)
        if before != member.incarnation:
            self._worker_gone(member.name)
        self._incarnations[member.name] = member.incarnation
        connection = self._members.join(member)
        self._home.joined(member)
        if member.role == master_pb2.ROLE_WORKER:
            self._narrator.joined(member.name, again=bool(member.era))
            connection.send(master_pb2.Order(topology=self._home.topology()))
            if self._stopping:
                connection.send(master_pb2.Order(drain=master_pb2.DrainOrder(reason=self._stopping)))
        return connection

    def parted(self, connection: Connection) -> None:
        """A connection broke: the platform says if a pod ended; one started by hand is given some time."""
        name = connection.member.name
        if self._members.part(connection) and name not in self._pods.present:
            loop = asyncio.get_running_loop()
            self._missing[name] = loop.call_later(MISSING_SECONDS, self._worker_gone, name)

    def settings(self) -> str:
        """The specification."""
        return self._spec.to_json()

    async def lease(self, request: master_pb2.LeaseRequest) -> master_pb2.LeaseReply:
        """See `Desk.lease`; only the living process of a name is served."""
        if self._incarnations.get(request.worker) != request.incarnation:
            return master_pb2.LeaseReply(answer=master_pb2.LeaseReply.REJOIN)
        return await self._desk.lease(request)

    async def report(self, request: master_pb2.ReportRequest) -> master_pb2.ReportReply:
        """See `Desk.report`; what it tells of the model's progress is heard first."""
        what = request.WhichOneof("what")
        if request.key.era == self._job.era:
            version, loss, rate = loss_of(request)
            self._narrator.measured(version, loss, rate)
            if what == "failed":
                self._show_once(request.failed.traceback)
            self._reached(version)
        reply = await self._desk.report(request)
        if reply.accepted and what == "finished":
            self._finished(request)
        return reply

    def _finished(self, request: master_pb2.ReportRequest) -> None:
        finished, kind = request.finished, request.key.kind
        if kind == master_pb2.LIST_SOURCES:
            self._listed(request)
        elif kind == master_pb2.EXPORT:
            self._job.export(finished.output)
            self._narrator.exported(finished.output)
        if finished.stop_training and TRAINING in self._job.machines:
            self._tell(TRAINING, ledger.StopHandingOut("a callback stopped the training"))
        self._end_if_complete()

    def _listed(self, request: master_pb2.ReportRequest) -> None:
        name = list(prepare.origins(self._spec))[request.key.shard]
        found = [Source(s.source, s.end - s.start, s.start) for s in request.finished.sources]
        if not any(source.records for source in found):
            self._finish(Outcome("failed", f"the model's own reader lists no records of {name}"))
            return
        self._job.begin({name: found})
        self._desk.news()

    async def reached(self, request: master_pb2.ReachedRequest) -> None:
        """A holder took a snapshot."""
        if isinstance(self._home, HeldHome):
            self._home.reached(request.version)
        elif request.era == self._job.era:
            self._reached(request.version)

    async def saved(self, request: master_pb2.SavedRequest) -> None:
        """The worker that holds the model wrote it."""
        if isinstance(self._home, HeldHome):
            self._home.saved(request.version, request.error)

    async def left(self, request: master_pb2.LeaveRequest) -> None:
        """Goodbye; an error that starting again cannot cure ends the job."""
        if request.reason == "error":
            self._show_once(request.traceback)
            if request.fatal:
                self._finish(Outcome("failed", f"{request.member}: {request.error}"))
        self._tell(FLEET, fleet.WorkerLeft(request.member, request.error or request.reason))
        if request.member not in self._pods.present:
            self._worker_gone(request.member)
        await self._journal.commit()

    async def copy(self, request: master_pb2.CopyRequest) -> bool:
        """Whose copy of the model is used."""
        return isinstance(self._home, ServedHome) and await self._home.offered(
            request.member, request.version
        )

    async def uploaded(self, request: master_pb2.UploadedRequest) -> None:
        """The chosen copy is there."""
        if isinstance(self._home, ServedHome):
            self._home.uploaded(request.version, request.error)

    def status(self) -> master_pb2.StatusReply:
        """The job as it stands."""
        return self._narrator.status()

    # -- small things -------------------------------------------------------------------------------------------

    def _pod_spec(self, start: fleet.StartPod) -> PodSpec:
        master = f"@{(self._folder / prepare.ADDRESS_FILE).absolute()}"
        return PodSpec(
            name=start.name,
            job=self._spec.job_name,
            role=start.role,
            index=start.index,
            command=command(self._spec, start.role, index=start.index, name=start.name, master=master),
            env={**envs(self._spec.envs), "ELASTICDL_TOKEN": self._token},
            relaunched_because=start.relaunched_because,
        )

    def _show_once(self, traceback: str) -> None:
        """A traceback of the user's code, once however often it happens."""
        if traceback and traceback not in self._tracebacks:
            self._tracebacks.add(traceback)
            log.error("%s", traceback.rstrip())

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            log.error("a task of the master failed: %s", problem, exc_info=problem)
            self._finish(Outcome("failed", f"the master cannot go on: {problem}"))


def _multiples(step: int, after: int, upto: int) -> range:
    """The multiples of `step` in (after, upto]."""
    return range((after // step + 1) * step, upto + 1, step) if step else range(0)
