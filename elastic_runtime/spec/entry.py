"""How every process begins and ends: command line read, notices said, errors told in one line.

Heavy imports stay out of here: `elasticdl --help` comes this way too.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elastic_runtime.errors import ElasticError

if TYPE_CHECKING:
    from elastic_runtime.spec.flags import Command
    from elastic_runtime.spec.job import JobSpec

INTERRUPTED = 130


def outcome(body: Callable[[], int]) -> int:
    """The exit code of `body`; an error that users can understand becomes one line."""
    try:
        return body()
    except ElasticError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


@contextmanager
def undisturbed() -> Iterator[None]:
    """For the imports of TensorFlow, in a quarter of whose time the garbage collector would look for some.

    Nor does it look at that ever after, which costs a training 0.15 s each time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def say(text: str) -> None:
    """One line to whoever watches."""
    sys.stderr.write(" ".join(text.splitlines()) + "\n")
    sys.stderr.flush()


def command_line(command: Command, argv: Sequence[str] | None = None) -> JobSpec:
    """The job that `argv`, the end of this process's arguments, asks for; on `--help`, the help and the end.

    Tools find a job's processes by `--job_name=<job>` on their command lines, so a process that was started
    with another spelling becomes, before anything else, one that was not.
    """
    from elastic_runtime.spec.arguments import parse
    from elastic_runtime.spec.usage import usage

    argv = sys.argv[1:] if argv is None else argv
    if {"--help", "-h"} & set(argv):
        sys.stdout.write(usage(command))
        sys.stdout.flush()
        raise SystemExit(0)
    parsed = parse(command, argv)
    literal = f"--job_name={parsed.spec.job_name}"
    is_ours = list(argv) == sys.argv[len(sys.argv) - len(argv) :]
    if is_ours and parsed.spec.job_name and literal not in argv:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], literal])  # noqa: S606 - this program again
    for notice in parsed.notices:
        say(f"notice: {notice}")
    return parsed.spec
