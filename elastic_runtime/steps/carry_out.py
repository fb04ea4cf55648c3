"""How an engine runs a step: its log begins, the step runs, and what went wrong is the last line.

A traceback is for defects of ours. What a user can understand and mend is one line, after everything else,
where every engine shows it; the process then ends with the error's own exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe import log as logs
from elastic_runtime.spec.entry import say

LAST_WORDS = Path("/dev/termination-log")
ON_KFP = "_KFP_RUNTIME"  # the process is KFP's, which writes down what the step has made
Result = TypeVar("Result")


def carry_out(step: Callable[..., Result], arguments: Mapping[str, Any]) -> Result:
    """Run a step with these arguments; a user's error ends the process, its words the last line."""
    logging.getLogger().handlers.clear()  # the engine's own would say each line twice
    logs.set_up()
    end = _End() if os.environ.get(ON_KFP) == "true" else None
    try:
        return step(**arguments)
    except ElasticError as error:
        failure = ended_by(error)
        if end is not None:
            end.code = error.exit_code
        raise failure from None


class _End:
    """The end of KFP's process, once it has done all it does: at once, with this code.

    Python would wind down, and wait for TensorFlow's threads, which may be waiting for Python: for ever.
    """

    def __init__(self) -> None:
        self.code = 0
        self._tell = sys.excepthook
        sys.excepthook = self._failed
        atexit.register(self._come)

    def _failed(self, *what: Any) -> None:
        self.code = 1
        self._tell(*what)

    def _come(self) -> None:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(self.code)


def ended_by(error: ElasticError) -> SystemExit:
    """Say what went wrong, in the log and, in a pod, where Kubernetes and Argo look for its last words."""
    say(f"error: {error}")
    if LAST_WORDS.exists():
        with contextlib.suppress(OSError):
            LAST_WORDS.write_text(f"{error}\n", encoding="utf-8")
    return SystemExit(error.exit_code)
