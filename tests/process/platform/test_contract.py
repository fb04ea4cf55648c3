"""The contract of platforms, for processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic_runtime.platform.pods import PodSpec, Role, pod_name
from elastic_runtime.platform.process import ProcessPlatform
from tests.platform_contract import PlatformContract


class Processes:
    """A run folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def platform(self) -> ProcessPlatform:
        return ProcessPlatform(self._folder, "j")

    def spec(self, number: int, script: str) -> PodSpec:
        name = pod_name("j", Role.WORKER, number)
        return PodSpec(name, "j", Role.WORKER, number, ("sh", "-c", script), {}, "preempted")


class TestProcesses(PlatformContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Processes:
        return Processes(tmp_path)
