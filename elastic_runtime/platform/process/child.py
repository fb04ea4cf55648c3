"""The pod's side of the process platform: leave a word on how it ended.

A master learns the exit code of its own children from the system, but not that of pods it adopted from the
master before it. So an entry point runs inside `settle`, which writes how it ended next to the pod's
record. A process that is killed writes nothing, and is judged as killed.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from elastic_runtime.platform.pods import EXIT_ERROR, EXIT_OUT_OF_MEMORY
from elastic_runtime.platform.process.exits import judge
from elastic_runtime.platform.process.folder import write_exit

EXIT_RECORD = "ELASTICDL_EXIT_RECORD"


def settle(main: Callable[[], int]) -> NoReturn:
    """Run a pod's entry point, record how it ended, and exit with its code."""
    code, last = EXIT_ERROR, ""
    try:
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else EXIT_ERROR * bool(end.code)
        last = "" if code == end.code else str(end.code or "")
        raise
    except MemoryError:
        code = EXIT_OUT_OF_MEMORY
        traceback.print_exc()
    except BaseException as error:
        last = f"{type(error).__name__}: {error}"
        raise
    finally:
        if path := os.environ.get(EXIT_RECORD):
            write_exit(Path(path), os.getpid(), judge(code, [last]))
    raise SystemExit(code)
