"""How long the long parts of the checks took on this machine: noted when they happen, told by `make bench`.

What is built once cannot be measured again without building it again, so whoever does it notes the time:
`note("images", 312.0)`, or `python -m tests.took WHAT SECONDS` in a script. The notes are in the cache of the
user, beside what was built.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def note(what: str, seconds: float) -> None:
    """Remember that this took so long."""
    told = {"what": what, "seconds": round(seconds, 1), "at": round(time.time()), "load": os.getloadavg()[1]}
    place().parent.mkdir(parents=True, exist_ok=True)
    with place().open("a") as file:
        file.write(json.dumps(told) + "\n")


def newest() -> dict[str, float]:
    """The last note of each part."""
    lines = place().read_text().splitlines() if place().exists() else []
    return {told["what"]: told["seconds"] for told in map(json.loads, lines)}


def place() -> Path:
    """The file with the notes."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "elasticdl" / "took.jsonl"


if __name__ == "__main__":
    note(sys.argv[1], float(sys.argv[2]))
