"""Files that are there whole or not at all: written beside their place and renamed into it."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str, *, durable: bool = True) -> None:
    """Put `text` at `path`; a reader, or the survivor of a crash, finds the old text or the new one.

    What is written often and soon out of date need not be `durable`: it waits for no disk, and a crash of the
    machine, though not of the process, can lose it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
