"""What an exit status, and the last lines written, say about the reason."""

import signal

import pytest

from elastic_runtime.platform.exits import (
    EXIT_DRAINED,
    EXIT_NEVER_STARTED,
    EXIT_OUT_OF_MEMORY,
    Verdict,
    judge,
)
from elastic_runtime.platform.pods import ExitCause
from elastic_runtime.platform.process import launch


@pytest.mark.parametrize(
    ("status", "last_lines", "verdict"),
    [
        (0, ["MemoryError"], Verdict(ExitCause.COMPLETED, 0, "exit code 0")),
        (EXIT_DRAINED, ["leaving"], Verdict(ExitCause.DRAINED, 75, "exit code 75")),
        (EXIT_OUT_OF_MEMORY, [], Verdict(ExitCause.OUT_OF_MEMORY, 71, "out of memory: exit code 71")),
        (EXIT_NEVER_STARTED, [], Verdict(ExitCause.NEVER_STARTED, 127, "exit code 127")),
        (None, ["ValueError: x"], Verdict(ExitCause.PREEMPTED, None, "gone without an exit record")),
        (1, ["Traceback", "ValueError: x", ""], Verdict(ExitCause.ERROR, 1, "exit code 1: ValueError: x")),
        (1, [], Verdict(ExitCause.ERROR, 1, "exit code 1")),
        (1, ["MemoryError", "bye"], Verdict(ExitCause.OUT_OF_MEMORY, 1, "out of memory: MemoryError")),
        (1, ["numpy._core._exceptions._ArrayMemoryError: Unable to allocate"], ExitCause.OUT_OF_MEMORY),
        (1, ["ResourceExhaustedError: OOM when allocating tensor"], ExitCause.OUT_OF_MEMORY),
        (1, ["OSError: [Errno 12] Cannot allocate memory"], ExitCause.OUT_OF_MEMORY),
        (-signal.SIGABRT, ["  what():  std::bad_alloc"], ExitCause.OUT_OF_MEMORY),
        (-signal.SIGABRT, [], Verdict(ExitCause.ERROR, 134, "killed by SIGABRT")),
        (-signal.SIGSEGV, ["x"], Verdict(ExitCause.ERROR, 139, "killed by SIGSEGV: x")),
        (-signal.SIGKILL, ["MemoryError"], Verdict(ExitCause.PREEMPTED, 137, "killed by SIGKILL")),
        (-signal.SIGTERM, [], ExitCause.PREEMPTED),
        (-signal.SIGHUP, [], ExitCause.PREEMPTED),
        (-signal.SIGINT, [], ExitCause.PREEMPTED),
        (143, [], Verdict(ExitCause.PREEMPTED, 143, "killed by SIGTERM")),
        (137, [], ExitCause.PREEMPTED),
        (-64, [], ExitCause.ERROR),
        (255, [], Verdict(ExitCause.ERROR, 255, "exit code 255")),
    ],
)
def test_each_way_to_end_has_its_cause(status, last_lines, verdict):
    judged = judge(status, last_lines)
    assert judged == verdict if isinstance(verdict, Verdict) else judged.cause is verdict


def test_a_kill_by_the_kernel_for_memory_is_no_preemption():
    verdict = Verdict(ExitCause.OUT_OF_MEMORY, 137, "killed by the kernel, out of memory")
    assert judge(-signal.SIGKILL, oom_killed=True) == verdict
    assert judge(-signal.SIGTERM, oom_killed=True).cause is ExitCause.PREEMPTED


def test_the_launcher_says_never_started_with_the_code_everybody_knows():
    assert launch.EXIT_GAVE_UP == EXIT_NEVER_STARTED
