"""What a worker says to its master, over the membership that waits out the master's absences.

"No work", "no master" and "refused" stay different answers: the first is a reply, the second waits (and
ends in `MasterAway` when this process ends), the third is an error.
"""

from __future__ import annotations

import logging

import grpc

from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.membership import MasterAway, Membership

log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
DECISION_SECONDS = 360.0
"""Until it is decided whose copy is used, others may have tried to upload theirs."""


class MasterLink:
    """Calls to the master, from any thread of the worker."""

    def __init__(self, membership: Membership, *, worker: str, incarnation: str) -> None:
        self.worker, self._incarnation = worker, incarnation
        self._membership = membership

    def settings(self) -> str:
        """The job's specification as JSON."""
        request = master_pb2.SettingsRequest()
        reply: master_pb2.SettingsReply = self._membership.call(
            lambda m: m.Settings(request, timeout=ANSWER_SECONDS)
        )
        return reply.spec

    def lease(self, *, era: int, serial: int, wait_seconds: float) -> master_pb2.LeaseReply:
        """Ask for work; the master answers when there is some, or after `wait_seconds`."""
        request = master_pb2.LeaseRequest(
            worker=self.worker,
            incarnation=self._incarnation,
            era=era,
            serial=serial,
            wait_seconds=wait_seconds,
        )
        reply: master_pb2.LeaseReply = self._membership.call(
            lambda m: m.Lease(request, timeout=wait_seconds + ANSWER_SECONDS)
        )
        return reply

    def report(self, report: master_pb2.ReportRequest) -> master_pb2.ReportReply:
        """Tell what became of a lease."""
        report.worker, report.incarnation = self.worker, self._incarnation
        reply: master_pb2.ReportReply = self._membership.call(
            lambda m: m.Report(report, timeout=ANSWER_SECONDS)
        )
        return reply

    def reached(self, *, era: int, version: int) -> None:
        """Say that this worker, which holds the model, has a snapshot of `version`."""
        request = master_pb2.ReachedRequest(member=self.worker, era=era, version=version)
        self._membership.call(lambda m: m.Reached(request, timeout=ANSWER_SECONDS))

    def saved(self, *, era: int, version: int, directory: str, error: str) -> None:
        """Answer a save order."""
        request = master_pb2.SavedRequest(
            member=self.worker, era=era, version=version, directory=directory, error=error
        )
        self._membership.call(lambda m: m.Saved(request, timeout=ANSWER_SECONDS))

    def offer_copy(self, *, era: int, version: int) -> bool:
        """Say which version this worker holds; true if it shall upload it."""
        request = master_pb2.CopyRequest(member=self.worker, era=era, version=version)
        reply: master_pb2.CopyReply = self._membership.call(
            lambda m: m.Copy(request, timeout=DECISION_SECONDS)
        )
        return reply.upload

    def uploaded(self, *, era: int, version: int, error: str = "") -> None:
        """The chosen copy is uploaded, or could not be."""
        request = master_pb2.UploadedRequest(member=self.worker, era=era, version=version, error=error)
        self._membership.call(lambda m: m.Uploaded(request, timeout=ANSWER_SECONDS))

    def world(
        self, *, left: int, era: int, version: int, checksum: int, wait_seconds: float
    ) -> master_pb2.WorldReply:
        """Ask for a place in the next world; an empty reply if there is none in time."""
        request = master_pb2.WorldRequest(
            member=self.worker,
            incarnation=self._incarnation,
            left=left,
            era=era,
            version=version,
            checksum=checksum,
            wait_seconds=wait_seconds,
        )
        reply: master_pb2.WorldReply = self._membership.call(
            lambda m: m.World(request, timeout=wait_seconds + ANSWER_SECONDS)
        )
        return reply

    def leave(self, reason: str, *, error: str = "", traceback: str = "", fatal: bool = False) -> None:
        """Say goodbye; a master that is away learns it from the exit code."""
        request = master_pb2.LeaveRequest(
            member=self.worker,
            incarnation=self._incarnation,
            reason=reason,
            error=error,
            traceback=traceback,
            fatal=fatal,
        )
        try:
            self._membership.call(lambda m: m.Leave(request, timeout=5), wait=2 if not error else 10)
        except (MasterAway, grpc.RpcError) as problem:
            log.info("the master could not be told goodbye: %s", problem)
