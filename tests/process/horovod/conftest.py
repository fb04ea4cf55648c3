"""Processes with TensorFlow and Horovod in them, shared by all tests because they start slowly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from elastic_runtime.platform.allreduce import REMEDY, why_no_allreduce

if TYPE_CHECKING:
    from horovod_crowd import Crowd, Member


@pytest.fixture(scope="session")
def crowd() -> Iterator[Crowd]:
    if reason := why_no_allreduce():
        pytest.skip(f"{reason}: {REMEDY}")
    from horovod_crowd import Crowd

    crowd = Crowd()
    yield crowd
    crowd.end()


@pytest.fixture
def members(crowd: Crowd) -> Iterator[list[Member]]:
    """Three processes that are in no world."""
    members = list(crowd.complete())
    yield members
    for member in members:
        if member.process.poll() is None:
            member.abort()
            member.tell("shutdown")
    for member in members:
        if member.process.poll() is None:
            member.value()
