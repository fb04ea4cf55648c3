"""A worker whose master is gone for good."""

import signal

import pytest

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
