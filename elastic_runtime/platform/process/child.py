"""The pod's side of the process platform: leave a word on how it ended, and end.

A master learns the exit code of its own children from the system, but not that of pods it adopted from the
master before it. So an entry point runs inside `settle`, which writes how it ended next to the pod's
record. A process that is killed writes nothing, and is judged as killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from elastic_runtime.platform.exits import judge
from elastic_runtime.platform.pods import EXIT_ERROR, EXIT_OUT_OF_MEMORY
from elastic_runtime.platform.process.folder import write_exit

EXIT_RECORD = "ELASTICDL_EXIT_RECORD"


def settle(main: Callable[[], int]) -> NoReturn:
    """Run a pod's entry point, record how it ended, and exit with its code.

    The interpreter is not wound down: `main` has left nothing to do, and TensorFlow takes seconds for it.
    """
    code, last = _run(main)
    if path := os.environ.get(EXIT_RECORD):
        write_exit(Path(path), os.getpid(), judge(code, [last]))
        shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)  # this pod's own, see `platform._spawn`
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _run(main: Callable[[], int]) -> tuple[int, str]:
    """The exit code, and what was said last."""
    try:
        return main(), ""
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0, ""
        sys.stderr.write(f"{end.code}\n")
        return EXIT_ERROR, str(end.code)
    except MemoryError:
        traceback.print_exc()
        return EXIT_OUT_OF_MEMORY, ""
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is this process's end
        traceback.print_exc()
        return EXIT_ERROR, f"{type(error).__name__}: {error}"
