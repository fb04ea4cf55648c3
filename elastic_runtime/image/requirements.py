"""What a wheel of this program needs, read from its own metadata.

    python elastic_runtime/image/requirements.py WHEEL EXTRA...

A Dockerfile installs this before the wheel itself, so that a change of our code leaves that large layer as it
is. It is run as a file, and imports nothing, because nothing is installed yet.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Collection
from email.parser import HeaderParser
from pathlib import Path

_OF_AN_EXTRA = re.compile(r"(.*?)\s*;\s*extra\s*==\s*['\"](.+?)['\"]")


def requirements(wheel: Path, extras: Collection[str]) -> list[str]:
    """Its requirements, and those of these extras, each as pip takes it."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    needed = []
    for requirement in metadata.get_all("Requires-Dist", []):
        optional = _OF_AN_EXTRA.fullmatch(requirement)
        if not optional:
            needed.append(requirement)
        elif optional[2] in extras:
            needed.append(optional[1])
    return needed


if __name__ == "__main__":
    sys.stdout.writelines(f"{needed}\n" for needed in requirements(Path(sys.argv[1]), sys.argv[2:]))
