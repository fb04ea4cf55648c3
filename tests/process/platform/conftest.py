"""A world for each test; nothing may outlive it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod_world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    left = world.processes()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "processes outlived the test"
