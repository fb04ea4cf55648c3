"""Kubeflow Pipelines' programs, made ready by another process while this one goes on with what needs none.

ahead = Ahead.begun()    # says what it does beside whatever this process says
ahead.wait()             # by whoever needs the programs; what has failed then fails again, and says why
ahead.close()            # ends it, if nobody has needed them
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.errors import ElasticError
from tests.cluster.kit.kit import say

ROOT = Path(__file__).parents[3]
PREPARE = ("nice", "-n", "5", sys.executable, "-m", "tests.cluster.kit", "prepare", "--kfp")
"""It gives way to the tests: these have limits for what they wait for."""
READY_SECONDS, END_SECONDS = 1800.0, 30.0


@dataclass(frozen=True, slots=True)
class Ahead:
    """The process that makes them, in a group of its own with all that it starts."""

    process: subprocess.Popen[bytes]

    @classmethod
    def begun(cls, command: Sequence[str] = PREPARE) -> Ahead:
        """Another session that makes the same is waited for, as everywhere."""
        return cls(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, process_group=0))

    def wait(self, seconds: float = READY_SECONDS) -> None:
        """Until it has ended, well or not."""
        if self.process.poll() is None:
            began = time.monotonic()
            say("waiting for the programs of Kubeflow Pipelines")
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                what = f"the programs of Kubeflow Pipelines are not there after {seconds:.0f} s"
                raise ElasticError(what, where=" ".join(self.process.args)) from None
            say(f"waited {time.monotonic() - began:.0f} s for them")

    def close(self) -> None:
        """End it, as a Ctrl-C would, and whatever of all that it has started is left then."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
