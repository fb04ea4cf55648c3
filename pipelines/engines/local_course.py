"""What KFP's local runner says, as the steps that it means: there is no other way to follow it.

It logs, as root, which task it begins and how that ended, and prints what the task's process prints, indented
and between rules. Its own words become states of steps and go no further, unless they are warnings, nor do
those of KFP's part in the process; the words of the steps go on as these have written them.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from pipelines.engines import Phase, Step, why_failed

_COLOUR = re.compile(r"\x1b\[\d+m")
_BEGINS = re.compile(r"Executing task '(?P<name>.+)'")
_ENDS = re.compile(r"Task '(?P<name>.+)' finished with status (?P<status>SUCCESS|FAILURE)")
_INDENT = "    "
_OUTPUT = re.compile(r'\s*"outputFile": "(?P<path>.+)/[^/]+/executor_output.json"')
_OF_THE_EXECUTOR = re.compile(r"\[KFP Executor |\[[^]]*\] \[INFO\] \[executor_main\.py:")


class LocalCourse:
    """Follows one run."""

    def __init__(self, names: Sequence[str]) -> None:
        self._steps = {name: Step(name) for name in names}
        self._changed: Callable[[list[Step]], None] = lambda _: None
        self._last_words = ""
        self.folder: Path | None = None
        """Once a step has begun: where this run, and no other, leaves what it makes."""

    @contextlib.contextmanager
    def followed(self, target: TextIO, changed: Callable[[list[Step]], None]) -> Iterator[None]:
        """Meanwhile what is logged and printed here is the runner's; `target` gets the steps' part.

        `changed` hears of every change, and gets all steps.
        """
        self._changed, root = changed, logging.getLogger()
        root.addFilter(self._heard)
        try:
            with contextlib.redirect_stdout(_StepsOnly(target, self._said, self._input)):
                yield
        finally:
            root.removeFilter(self._heard)

    def why_failed(self) -> str:
        """Which step, and what it said last."""
        return why_failed(self._steps.values())

    def over(self) -> None:
        """Nothing more will begin."""
        left = [step for step in self._steps.values() if step.phase is Phase.WAITING]
        self._steps |= {step.name: Step(step.name, Phase.SKIPPED) for step in left}
        self._changed([*self._steps.values()])

    def _said(self, words: str) -> None:
        self._last_words = words

    def _input(self, line: str) -> None:
        if found := _OUTPUT.match(line):
            self.folder = Path(found["path"])

    def _heard(self, record: logging.LogRecord) -> bool:
        """Whether it is to be logged."""
        if "/kfp/local/" not in record.pathname:
            return True
        text, now = plain(record.getMessage()), time.time()
        if begins := _BEGINS.match(text):
            self._set(Step(begins["name"], Phase.RUNNING, began=now))
            return False
        if ends := _ENDS.match(text):
            failed, began = ends["status"] == "FAILURE", self._steps[ends["name"]].began
            phase = Phase.FAILED if failed else Phase.SUCCEEDED
            why = self._last_words.removeprefix("error: ") if failed else ""
            self._set(Step(ends["name"], phase, why, began=began, ended=now))
            return False
        return record.levelno >= logging.WARNING

    def _set(self, step: Step) -> None:
        self._steps[step.name] = step
        self._changed([*self._steps.values()])


def plain(text: str) -> str:
    """Without KFP's colours."""
    return _COLOUR.sub("", text)


class _StepsOnly(io.TextIOBase):
    """Passes on whole lines of the steps, without the runner's rules, blank lines and indentation."""

    def __init__(
        self, target: TextIO, said: Callable[[str], None], of_the_input: Callable[[str], None]
    ) -> None:
        self._target, self._said, self._of_the_input = target, said, of_the_input
        self._rest = ""
        self._in_input = False

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            words = line.removeprefix(_INDENT)
            if words.strip("- ") and not self._is_of_the_executor(words):
                self._said(words)
                self._target.write(f"{words}\n")
        self._target.flush()
        return len(text)

    def _is_of_the_executor(self, words: str) -> bool:
        """It tells its input as JSON, which ends with a brace on a line of its own."""
        if self._in_input:
            self._in_input = words != "}"
            self._of_the_input(words)
            return True
        self._in_input = words.startswith("[KFP Executor") and words.endswith("Got executor_input:")
        return _OF_THE_EXECUTOR.match(words) is not None
