"""How an engine runs a step: its log begins, the step runs, and what went wrong is the last line.

A traceback is for defects of ours. What a user can understand and mend is one line, after everything else,
where every engine shows it; the process then ends with the error's own exit code.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe import log as logs
from elastic_runtime.spec.entry import say

LAST_WORDS = Path("/dev/termination-log")
Result = TypeVar("Result")


def carry_out(step: Callable[..., Result], arguments: Mapping[str, Any]) -> Result:
    """Run a step with these arguments; a user's error ends the process, its words the last line."""
    logging.getLogger().handlers.clear()  # the engine's own would say each line twice
    logs.set_up()
    try:
        return step(**arguments)
    except ElasticError as error:
        raise ended_by(error) from None


def ended_by(error: ElasticError) -> SystemExit:
    """Say what went wrong, in the log and, in a pod, where Kubernetes and Argo look for its last words."""
    say(f"error: {error}")
    if LAST_WORDS.exists():
        with contextlib.suppress(OSError):
            LAST_WORDS.write_text(f"{error}\n", encoding="utf-8")
    return SystemExit(error.exit_code)
