"""How every process of a job writes its log: one format, to standard error and to a file if asked.

The format is the one users' scripts know: `[2020-04-14 02:46:40,750] [INFO] [file.py:12:function] message`. A
message goes out in one write, so its lines stay together when processes share a file, and setting up twice
changes the settings instead of doubling the lines.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TextIO

from elastic_runtime.errors import InputError, nearest

FORMAT = "[%(asctime)s] [%(levelname)s] [%(filename)s:%(lineno)d:%(funcName)s] %(message)s"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_QUIET = (
    "absl",
    "aiobotocore",
    "asyncio",
    "botocore",
    "fsspec",
    "grpc",
    "h5py",
    "kubernetes",
    "numba",
    "s3fs",
    "tensorflow",
    "urllib3",
)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at the time, so that a live view or a test may take its place."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _File(logging.FileHandler):
    """A log file of ours."""


def set_up(level: str = "INFO", *, file: Path | None = None) -> None:
    """Send this process's log lines of that level and above to standard error, and to `file` too if given.

    Other packages' loggers speak from WARNING on; a user's model code logs like ours.
    """
    name = level.upper()
    if name not in LEVELS:
        raise InputError(f"unknown log level {level!r}", where="--log_level", remedy=nearest(name, LEVELS))
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, _StandardError | _File)]:
        root.removeHandler(old)
        old.close()
    handlers: list[logging.Handler] = [_StandardError()]
    if file is not None and not _is_standard_error(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(_File(file, encoding="utf-8", errors="backslashreplace"))
    for handler in handlers:
        handler.setFormatter(logging.Formatter(FORMAT))
        root.addHandler(handler)
    root.setLevel(name)
    for other in _QUIET:
        logging.getLogger(other).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[name]))
    logging.captureWarnings(True)


def _is_standard_error(file: Path) -> bool:
    """Whether standard error already goes to this file, as it does in a pod of this machine."""
    try:
        return os.path.samestat(os.stat(file), os.fstat(sys.stderr.fileno()))
    except (OSError, ValueError, AttributeError):
        return False
