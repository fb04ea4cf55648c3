"""What the master is told of leases, and what becomes of a worker that cannot tell it."""

import queue
from types import SimpleNamespace

import pytest

from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.membership import MasterAway
from elastic_runtime.worker.effort import Effort
from elastic_runtime.worker.reports import Reports
from elastic_runtime.worker.trainers.base import SnapshotLost
from elastic_runtime.worker.work import Broken

KEY = master_pb2.LeaseKey(kind=master_pb2.EVALUATION, epoch=50)


@pytest.fixture
def reports_to():
    """`reports_to(report)`: reports that `report` answers, and the worker's inbox."""
    made = []

    def make(report):
        inbox = queue.SimpleQueue()
        made.append(Reports(SimpleNamespace(report=report), Effort(), inbox))
        return made[-1], inbox

    yield make
    for reports in made:
        reports.close()


def test_a_snapshot_that_is_lost_is_told_as_such_and_may_be_done_without(reports_to):
    told = []

    def report(request):
        told.append(request.failed)
        return master_pb2.ReportReply(accepted=True)

    reports, _ = reports_to(report)
    reports.failed(KEY, SnapshotLost("no snapshot of version 50 is kept"))
    assert reports.flush(60)
    [failed] = told
    assert (failed.error, failed.snapshot_lost, failed.fatal) == (
        "no snapshot of version 50 is kept",
        True,
        False,
    )


def test_a_worker_whose_word_is_not_taken_does_not_train_on_in_vain(reports_to):
    broken = RuntimeError("UNKNOWN: the master's own fault")

    def report(request):
        raise broken

    reports, inbox = reports_to(report)
    reports.finished(KEY, master_pb2.Finished())
    assert inbox.get(timeout=60) == Broken(broken)
    assert reports.flush(60), "nobody waits for what will not be sent"


def test_a_master_that_is_away_is_no_failure(reports_to):
    def report(request):
        raise MasterAway("the master is away")

    reports, inbox = reports_to(report)
    reports.finished(KEY, master_pb2.Finished())
    assert reports.flush(60)
    assert inbox.empty()
