"""A worker whose master is gone for good."""

import signal

import pytest

from elastic_runtime.platform.pods import EXIT_DRAINED
from elastic_runtime.rpc.membership import MasterAway
from elastic_runtime.worker.app import Worker
from elastic_runtime.worker.interrupts import Draining


@pytest.fixture
def worker():
    worker = Worker(name="w", index=0, master="127.0.0.1:1", token="", orphan_timeout=1.0)
    before = signal.signal(signal.SIGTERM, worker._on_sigterm)
    yield worker
    signal.signal(signal.SIGTERM, before)
    worker._close()


def test_orphaned_in_the_midst_of_its_imports_it_does_not_wait_for_their_end(worker):
    with pytest.raises(Draining):
        worker._membership._on_orphaned()


def test_a_worker_whose_master_is_gone_ends_as_drained(worker, monkeypatch):
    """It is nobody's fault: the next master counts no failure against its seat."""

    def build(settings, incarnation):
        raise MasterAway("the master is away")

    monkeypatch.setattr(worker._membership, "start", lambda: worker._membership)
    monkeypatch.setattr(worker._link, "settings", lambda: "{}")
    assert worker.run(build) == EXIT_DRAINED
