"""What members of the job say to its master, and what they are told: membership, work, reports, goodbyes.

Only the living process of a name is served: what an earlier one of that name still says is refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from elastic_runtime.master import evaluation, fleet, ledger, prepare
from elastic_runtime.master.course import Course
from elastic_runtime.master.desk import Desk, loss_of
from elastic_runtime.master.home import HeldHome, ReplicatedHome, ServedHome
from elastic_runtime.master.job import EVALUATION, FLEET, PREDICTION, TRAINING, Job, Outcome
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Connection, Members
from elastic_runtime.master.narrator import Narrator
from elastic_runtime.master.pods import Pods
from elastic_runtime.master.versions import Versions
from elastic_runtime.platform.pods import Phase, Pod, Role
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.job import Kind

log = logging.getLogger(__name__)

MISSING_SECONDS = 15.0
HUNG_SECONDS = 30.0
ABSENT_SECONDS = 120.0
"""So long a parameter server that runs may take to join a master: it may have just been started."""
REPLACED = "another process has taken its place"


class Front:
    """Answers every call of `service.Service`."""

    def __init__(
        self,
        job: Job,
        *,
        course: Course,
        desk: Desk,
        members: Members,
        versions: Versions,
        pods: Pods,
        narrator: Narrator,
        durable: Callable[[], Awaitable[None]],
        finish: Callable[[Outcome], None],
        stop: Callable[[str], None],
    ) -> None:
        self._job, self._course, self._desk, self._members = job, course, desk, members
        self._versions, self._pods, self._narrator = versions, pods, narrator
        self._durable, self._finish, self.stop = durable, finish, stop
        self._missing: dict[str, asyncio.TimerHandle] = {}
        self._tracebacks: set[str] = set()
        self.draining = ""

    def joined(self, member: master_pb2.Member) -> Connection:
        """A parameter server or worker is there, unless its place is another's: then it is told to go."""
        if self._is_over(member):
            log.warning("a process of %s that has been replaced still runs: it is told to end", member.name)
            connection = Connection(member)
            connection.turn_away(REPLACED)
            return connection
        self._wait_no_longer(member.name)
        if self._members.incarnation(member.name) not in (None, member.incarnation):
            self._members.bury(member.name, REPLACED)
            if member.role == master_pb2.ROLE_WORKER:
                self._course.worker_gone(member.name)
        connection = self._members.join(member)
        self._versions.home.joined(member)
        if member.role == master_pb2.ROLE_WORKER:
            self._narrator.joined(member.name, again=bool(member.era))
            connection.send(master_pb2.Order(topology=self._versions.home.topology()))
            if self.draining:
                connection.send(master_pb2.Order(drain=master_pb2.DrainOrder(reason=self.draining)))
        return connection

    def _is_over(self, member: master_pb2.Member) -> bool:
        """Whether another has its place: a parameter server's, if an era began without what it holds."""
        is_behind = (
            member.role == master_pb2.ROLE_PS and member.state == "ready" and member.era < self._job.era
        )
        left_behind = is_behind and member.incarnation not in self._job.origin.holders
        return left_behind or self._members.is_over(member.incarnation)

    def parted(self, connection: Connection) -> None:
        """A connection broke: the platform says if a pod ended; one started by hand is given some time."""
        member = connection.member
        if not self._members.part(connection):
            return
        self._versions.home.away(member.name)
        later = asyncio.get_running_loop().call_later
        if member.name not in self._pods.present:
            self._missing[member.name] = later(MISSING_SECONDS, self._course.worker_gone, member.name)
        elif member.role == master_pb2.ROLE_PS:
            self._missing[member.name] = later(HUNG_SECONDS, self._replace_hung, member)

    def pod_changed(self, pod: Pod) -> None:
        """A parameter server that runs is to join; one that hangs as a new master begins never would."""
        if pod.role is not Role.PS:
            return
        if pod.phase is Phase.ENDED:
            self._wait_no_longer(pod.name)
        elif pod.phase is Phase.RUNNING and pod.name not in self._members and pod.name not in self._missing:
            later = asyncio.get_running_loop().call_later
            self._missing[pod.name] = later(ABSENT_SECONDS, self._replace_absent, pod.name)

    def _wait_no_longer(self, name: str) -> None:
        timer = self._missing.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _replace_absent(self, name: str) -> None:
        if name in self._pods.present and name not in self._members:
            log.warning("%s has not come for %g s: it is replaced", name, ABSENT_SECONDS)
            self._pods.end(name)

    def _replace_hung(self, member: master_pb2.Member) -> None:
        """A parameter server whose process lives but does not answer would hold up everybody for ever.

        If its pod has ended, what is there under its name is a replacement that is being started.
        """
        name = member.name
        if name in self._pods.present and self._members.lives(name, member.incarnation):
            log.warning("%s does not answer for %g s: it is replaced", name, HUNG_SECONDS)
            self._pods.end(name)

    async def left(self, request: master_pb2.LeaveRequest) -> None:
        """Goodbye; an error that starting again cannot cure ends the job. None of what is replaced does."""
        if self._members.is_over(request.incarnation):
            return
        if request.reason == "error":
            self._show_once(request.traceback)
            if request.fatal:
                self._finish(Outcome("failed", f"{request.member}: {request.error}"))
        elif self._members.lives(request.member, request.incarnation):
            self._take_back(request.member)
        self._versions.home.away(request.member)
        self._course.tell(FLEET, fleet.WorkerLeft(request.member, request.error or request.reason))
        if request.member not in self._pods.present:
            self._course.worker_gone(request.member)
        await self._durable()

    def _take_back(self, worker: str) -> None:
        """What a worker that left in order still has was on its way when it gave back the rest: not begun."""
        self._members.forget(worker)  # or else the question it has left open would be answered
        name = TRAINING if TRAINING in self._job.machines else PREDICTION
        for lease in self._job.main.leases(worker) if self._job.main else ():
            self._course.tell(name, ledger.GivenBack(worker, lease, 0, time.time()))

    def settings(self) -> str:
        """The specification."""
        return self._job.spec.to_json()

    def status(self) -> master_pb2.StatusReply:
        """The job as it stands."""
        return self._narrator.standing.status()

    async def lease(self, request: master_pb2.LeaseRequest) -> master_pb2.LeaseReply:
        """See `Desk.lease`."""
        self._members.entered(request.worker, request.era)
        return await self._desk.lease(
            request, lives=lambda: self._members.lives(request.worker, request.incarnation)
        )

    async def report(self, request: master_pb2.ReportRequest) -> master_pb2.ReportReply:
        """See `Desk.report`; what it tells of the model's progress is heard first."""
        what = request.WhichOneof("what")
        if request.key.era == self._job.era:
            version, loss, rate = loss_of(request)
            self._narrator.standing.measured(version, loss, rate)
            self._narrator.standing.worked(request.worker, request.effort.seconds, request.effort.records)
            if what == "failed":
                self._show_once(request.failed.traceback)
            self._versions.reached(version)
            if what == "given_back" and request.given_back.stop_training:
                self._stop_training()  # before it: else others would be given what it gives back
        if what == "failed" and request.key.kind == master_pb2.EXPORT and not self._job.spec.output:
            request = self._without_a_model(request)
        return await self._desk.report(request, accepted=lambda: self._accepted(request))

    def _without_a_model(self, request: master_pb2.ReportRequest) -> master_pb2.ReportRequest:
        """Nobody asked for it to be written: the job has done its work without."""
        log.warning("the finished model could not be written: %s", request.failed.error)
        finished = master_pb2.ReportRequest()
        finished.CopyFrom(request)
        finished.finished.SetInParent()
        return finished

    def _accepted(self, request: master_pb2.ReportRequest) -> None:
        if request.WhichOneof("what") != "finished":
            return
        finished, kind = request.finished, request.key.kind
        if kind == master_pb2.LIST_SOURCES:
            self._listed(request)
        elif kind == master_pb2.EXPORT and finished.output:
            self._job.export(finished.output)
            self._narrator.exported(finished.output)
        if finished.stop_training:
            self._stop_training()
        self._course.end_if_complete()

    def _stop_training(self) -> None:
        if TRAINING in self._job.machines:
            self._course.tell(TRAINING, ledger.StopHandingOut("a callback stopped the training"))

    def _listed(self, request: master_pb2.ReportRequest) -> None:
        """The model's own reader told what there is of one kind."""
        name = list(prepare.origins(self._job.spec))[request.key.shard]
        if name in self._job.machines:
            return  # told once more, because the answer was lost
        found = [Source(s.source, s.end - s.start, s.start) for s in request.finished.sources]
        if not any(source.records for source in found):
            self._finish(Outcome("failed", f"the model's own reader lists no records for {name}"))
            return
        self._job.begin({name: found})
        self._narrator.listed(name)
        if name == EVALUATION:
            self._course.tell(EVALUATION, evaluation.Began(time.time()))
            if self._job.spec.kind is Kind.EVALUATION:
                self._course.tell(EVALUATION, evaluation.FinalModel(self._job.version))
        self._desk.news()

    def _show_once(self, traceback: str) -> None:
        """A traceback of the user's code, once however often it happens."""
        if traceback and traceback not in self._tracebacks:
            self._tracebacks.add(traceback)
            log.error("%s", traceback.rstrip())

    async def reached(self, request: master_pb2.ReachedRequest) -> None:
        """A holder took a snapshot."""
        if isinstance(self._versions.home, HeldHome | ReplicatedHome):
            self._versions.home.questions.reached(request.version)
        elif request.era == self._job.era:
            self._versions.reached(request.version)

    async def saved(self, request: master_pb2.SavedRequest) -> None:
        """The worker that holds the model wrote it."""
        if isinstance(self._versions.home, HeldHome | ReplicatedHome):
            self._versions.home.questions.saved(request.version, request.error)

    async def copy(self, request: master_pb2.CopyRequest) -> bool:
        """Whether this worker's copy of the model is used."""
        home = self._versions.home
        if not isinstance(home, ServedHome):
            return False
        return await home.copies.offered(request.member, request.version, request.era)

    async def uploaded(self, request: master_pb2.UploadedRequest) -> None:
        """The chosen copy is there."""
        if isinstance(self._versions.home, ServedHome):
            self._versions.home.copies.uploaded(request.member, request.era, request.error)

    async def world(self, request: master_pb2.WorldRequest) -> master_pb2.WorldReply:
        """This worker's place in the next world; none if there is nothing left to do."""
        home = self._versions.home
        if self._job.complete or not isinstance(home, ReplicatedHome):
            await self._durable()
            return master_pb2.WorldReply(end=True)
        if not self._members.lives(request.member, request.incarnation):
            return master_pb2.WorldReply()
        return await home.world(request)
