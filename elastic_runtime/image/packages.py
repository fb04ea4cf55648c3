"""A user's Python packages in a folder of their own, for an image that has all the rest already.

Only what is missing here is installed, and nothing that is here is replaced: this process's Python and
packages stand for those of the image. So a user's packages cannot break the runtime, and a requirement that
contradicts it is an error before anything is pushed. Only wheels: nothing is built, nothing is run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError, InputError

_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
_LAST_LINES = 8
_INCLUDES = re.compile(r"\s*(?:-r|--requirement)[\s=]+(\S+)")
_CONFLICT = re.compile(r"^The conflict is caused by:\n((?: +.*\n)+)", re.MULTILINE)
_IS_SOURCE = re.compile(r"\s*(?:-i|-f|--(?:(?:extra-|no-)?index|find-links|trusted-host))\b")


def install(requirements: Iterable[str], folder: Path) -> list[str]:
    """Installs what of these lines of a requirements file is missing here; returns it as `name==version`."""
    with tempfile.TemporaryDirectory(prefix="elasticdl-packages-") as scratch:
        wanted = _write(Path(scratch, "wanted.txt"), requirements)
        here = _write(Path(scratch, "here.txt"), _installed())
        report = Path(scratch, "report.json")
        _pip("--dry-run", "--report", report, "--constraint", here, "--requirement", wanted)
        missing = json.loads(report.read_text())["install"]
        if missing:
            exact = _write(Path(scratch, "exact.txt"), [*_sources(wanted), *map(_exactly, missing)])
            _pip("--no-deps", "--no-compile", "--require-hashes", "--requirement", exact, "--target", folder)
            shutil.rmtree(folder / "bin", ignore_errors=True)  # they name a Python of this machine
    return sorted(f"{one['metadata']['name']}=={one['metadata']['version']}" for one in missing)


def _exactly(one: dict[str, Any]) -> str:
    """A line that means this very wheel."""
    about, origin = one["metadata"], one["download_info"]
    try:
        digest = origin["archive_info"]["hashes"]["sha256"]
    except KeyError:
        raise InputError("is no wheel, and only wheels are taken", where=origin["url"]) from None
    place = f" @ {origin['url']}" if one["is_direct"] else f"=={about['version']}"
    return f"{about['name']}{place} --hash=sha256:{digest}"


def _sources(file: Path) -> Iterator[str]:
    """The lines of a requirements file, and of those it includes, that say where packages are found."""
    for line in file.read_text().splitlines():
        if included := _INCLUDES.match(line):
            yield from _sources(file.parent / included[1])
        elif _IS_SOURCE.match(line):
            yield line


def _installed() -> list[str]:
    found = ((package.metadata["Name"], package.version) for package in metadata.distributions())
    return sorted({f"{name}=={version}" for name, version in found if name and version})


def _write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _pip(*words: str | Path) -> None:
    done = subprocess.run(
        [*_PIP, "install", "--only-binary", ":all:", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        conflict = _CONFLICT.search(done.stdout)
        told = _in_plain_words(conflict[1]) if conflict else done.stderr
        lines = [line.strip() for line in told.splitlines() if line.strip()]
        raise ElasticError(
            f"the requirements cannot be met: {' | '.join(lines[-_LAST_LINES:]) or 'pip did not say why'}",
            remedy="they have to agree with what the image holds; else build one: elasticdl zoo init",
        )


def _in_plain_words(told: str) -> str:
    """What contradicts each other: to pip the image's packages are constraints of its user."""
    return told.replace("The user requested (constraint)", "the image holds").replace(
        "The user requested", "asked for is"
    )
