"""Why a pod ended, from what the system says about it and the last lines it wrote.

A process killed from outside, or gone without a trace, counts as preempted: nothing its program did brought
that about. Memory is named plainly, whether an allocation was refused (Python, C++ and TensorFlow say so in
their last lines) or the kernel killed the process.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from elastic_runtime.platform.pods import (
    EXIT_DRAINED,
    EXIT_ERROR,
    EXIT_NEVER_STARTED,
    EXIT_OUT_OF_MEMORY,
    ExitCause,
)

__all__ = ["EXIT_DRAINED", "EXIT_ERROR", "EXIT_NEVER_STARTED", "EXIT_OUT_OF_MEMORY", "Verdict", "judge"]

_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_REFUSED = re.compile(r"MemoryError\b|bad_alloc|annot allocate memory|OOM when allocating|ut of memory")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a pod ended: `exit_code` as a shell or Kubernetes shows it (128 + signal), `detail` in one line."""

    cause: ExitCause
    exit_code: int | None
    detail: str


def judge(status: int | None, last_lines: Sequence[str] = (), *, oom_killed: bool = False) -> Verdict:
    """Judge an exit status: a code, minus a signal, or None when nobody knows."""
    if status is None:
        return Verdict(ExitCause.PREEMPTED, None, "gone without an exit record")
    code = 128 - status if status < 0 else status
    how = _signal_name(code) or f"exit code {code}"
    last = next((line.strip() for line in reversed(last_lines) if line.strip()), "")
    if code == 0:
        return Verdict(ExitCause.COMPLETED, code, how)
    if code == EXIT_DRAINED:
        return Verdict(ExitCause.DRAINED, code, how)
    if code - 128 in _FROM_OUTSIDE:
        if oom_killed and code - 128 == signal.SIGKILL:
            return Verdict(ExitCause.OUT_OF_MEMORY, code, "killed by the kernel, out of memory")
        return Verdict(ExitCause.PREEMPTED, code, how)
    refused = next((line.strip() for line in reversed(last_lines) if _REFUSED.search(line)), "")
    if refused or code == EXIT_OUT_OF_MEMORY:
        return Verdict(ExitCause.OUT_OF_MEMORY, code, f"out of memory: {refused or last or how}")
    cause = ExitCause.NEVER_STARTED if code == EXIT_NEVER_STARTED else ExitCause.ERROR
    return Verdict(cause, code, f"{how}: {last}" if last else how)


def _signal_name(code: int) -> str:
    try:
        return f"killed by {signal.Signals(code - 128).name}"
    except ValueError:
        return ""
