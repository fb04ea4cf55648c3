"""No engine: KFP's local runner carries out every step here, as processes of this machine.

`set_retry` is for what befalls pods. Here a step that fails would fail again, and say so each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kfp import local

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe import figures
from elastic_runtime.spec.entry import say
from pipelines.engines.local_course import LocalCourse, plain
from pipelines.engines.outputs import outputs
from pipelines.engines.view import View
from pipelines.packages.kfp import KfpPackage

ENDING_SECONDS = 120.0
LOOK_SECONDS = 0.1


class Local:
    """One pipeline on this machine."""

    def __init__(
        self, package: KfpPackage, *, folder: Path, parameters: Mapping[str, Any], because: str
    ) -> None:
        self.package, self._folder, self._parameters = package, folder, parameters
        self.why = f"this machine ({because})"

    def run(self) -> int:
        """Every step, one after the other; what they leave goes into the folder."""
        name, root, began = self.package.name, self._folder / "outputs", time.time()
        local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(root))
        warnings.filterwarnings("ignore", "You may be attemping", RuntimeWarning)  # so is any image
        self.package.try_once()
        course = LocalCourse(self.package.components())
        try:
            self._follow(course)
        finally:
            for line in _results(course.folder) if course.folder else ():
                sys.stdout.write(f"{line}\n")
        sys.stdout.write(f"{name} succeeded in {figures.duration(time.time() - began)}\n")
        return 0

    def _follow(self, course: LocalCourse) -> None:
        """Show the steps until they have ended."""
        with View(f"{self.package.name}, on this machine") as view:
            try:
                with course.followed(sys.stderr, view.show):
                    self.package.component(**self._parameters)
            except RuntimeError as problem:  # KFP says no more of a step that has told itself why it failed
                course.over()
                why = course.why_failed() or plain(str(problem))
                raise ElasticError(f"the pipeline failed: {why}") from None
            except KeyboardInterrupt:  # which every process of this terminal has got
                say("the step that runs ends in order, and nothing goes on after it")
                _await_processes()
                raise


def _await_processes() -> None:
    """Of the step: KFP's runner leaves them to themselves when it is interrupted, as a second Ctrl-C does."""
    until = time.monotonic() + ENDING_SECONDS
    with contextlib.suppress(ChildProcessError):  # there are none any more
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(LOOK_SECONDS)  # no wait for just any child ends by a deadline
        say(f"the step has not ended within {ENDING_SECONDS:g} s: it is left to itself")


def _results(run: Path) -> Iterator[str]:
    """What each step gave."""
    for told in sorted(run.glob("*/executor_output.json"), key=lambda path: path.stat().st_mtime):
        yield from outputs(told.parent.name, json.loads(told.read_text()))
