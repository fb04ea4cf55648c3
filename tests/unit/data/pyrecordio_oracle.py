"""The real pyrecordio 0.0.7, as the other side of compatibility tests and benchmarks.

Its only wheels are for Python 3.5 and 3.6, but the library inside is plain C called through ctypes: renamed
for this interpreter, it runs on 3.11. It is fetched once from the package index into the user's cache.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from types import ModuleType

PLATFORM = [
    "--python-version",
    "36",
    "--implementation",
    "cp",
    "--abi",
    "cp36m",
    "--platform",
    "manylinux1_x86_64",
]


class Unavailable(Exception):
    """Why the old package cannot be had here."""


def load() -> ModuleType:
    """The module `recordio`, fetched if need be."""
    if sys.version_info >= (3, 12):
        raise Unavailable("pyrecordio needs distutils, which Python 3.12 no longer has")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "elasticdl" / "pyrecordio-0.0.7"
    if not folder.exists():
        _fetch(folder)
    sys.path.append(str(folder))
    try:
        return importlib.import_module("recordio")
    except (ImportError, OSError) as error:
        raise Unavailable(f"pyrecordio does not load here: {error}") from error
    finally:
        sys.path.remove(str(folder))


def _fetch(folder: pathlib.Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", *PLATFORM, "-d", scratch, "pyrecordio==0.0.7"]
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if fetched.returncode:
            raise Unavailable(f"pyrecordio cannot be fetched: {fetched.stderr.strip().splitlines()[-1:]}")
        unpacked = pathlib.Path(scratch, "unpacked")
        with zipfile.ZipFile(next(pathlib.Path(scratch).glob("*.whl"))) as wheel:
            wheel.extractall(unpacked)
        for library in (unpacked / "recordio").glob("librecordio*.so"):
            library.rename(library.with_name(f"librecordio{sysconfig.get_config_var('EXT_SUFFIX')}"))
        if not folder.exists():
            unpacked.rename(folder)
