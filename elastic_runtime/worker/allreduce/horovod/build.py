"""Builds Horovod, once a machine, for the Python and TensorFlow of this virtual environment.

    python -m elastic_runtime.worker.allreduce.horovod.build [--install] [--to FOLDER]

Horovod is released as source only, and elastic jobs need it mended: the release is fetched through pip,
checked, patched (`patches/`, in order) and compiled without MPI and GPUs into a wheel. Wheels are kept in the
user's cache; the name of one tells what it is for, so that a change of anything it depends on makes another.
A builder that dies leaves only a folder that the next one removes.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import IO, NoReturn

from elastic_runtime.errors import ElasticError, InputError, installing
from elastic_runtime.platform.allreduce import REMEDY, tensorflow_version
from elastic_runtime.spec.entry import outcome, say

RELEASE = "0.28.1"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
TOOLS = ("g++", "cmake", "make", "patch")  # commands, and the Debian packages they come in
MODULES = ("setuptools", "packaging", "cloudpickle", "psutil", "yaml", "tensorflow")
SETTINGS = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_CPU_OPERATIONS": "GLOO",
    # Not those of the CPU that builds: an image is built on one machine and runs on others.
    "HOROVOD_BUILD_ARCH_FLAGS": {"x86_64": "-mavx -mf16c -mfma"}.get(platform.machine(), ""),
    "CXXFLAGS": "-g0",
    "LDFLAGS": "-s",
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",  # CMake 4 refuses what Gloo asks for
}


@functools.cache
def version() -> str:
    """The version that the wheel for this environment bears."""
    tensorflow = tensorflow_version()
    if tensorflow is None:
        raise InputError(
            "Horovod is built for a TensorFlow, and none is installed",
            remedy=installing("train,allreduce"),
        )
    mending = hashlib.sha256(repr(sorted(SETTINGS.items())).encode())
    for patch in _patches():
        _, _, changes = patch.read_text().partition("\n--- ")
        mending.update(changes.encode())
    return f"{RELEASE}+elasticdl.tf{tensorflow}.p{mending.hexdigest()[:8]}"


def _patches() -> list[Path]:
    return sorted((Path(__file__).parent / "patches").glob("*.patch"))


def installed() -> bool:
    """Whether exactly this build is installed here."""
    try:
        return metadata.version("horovod") == version()
    except metadata.PackageNotFoundError:
        return False


def wheel() -> Path:
    """The wheel for this environment: from the cache, or built now. Builders take turns."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "elasticdl" / "horovod"
    home.mkdir(parents=True, exist_ok=True)
    with _turn(home) as lock:
        return _cached(home) or _build(home, lock)


def install() -> None:
    """Put the wheel into this environment, unless it is there."""
    if installed():
        return
    source = wheel()
    with _turn(source.parent):
        command = [*_PIP, "install", "--quiet", "--no-index", "--no-deps", str(source)]
        if failure := subprocess.run(command, check=False).returncode:
            raise ElasticError(f"pip could not install {source}: exit code {failure}")


_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _cached(home: Path) -> Path | None:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return next(home.glob(f"horovod-{version()}-{python}-*_{platform.machine()}.whl"), None)


@contextlib.contextmanager
def _turn(home: Path) -> Iterator[IO[str]]:
    """While one process builds or installs, others wait; they wait for the compiler of a killed one too."""
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("horovod: waiting for another process that builds it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def _build(home: Path, lock: IO[str]) -> Path:
    _can_build()
    for remains in home.glob("unfinished-*"):  # of builders that were killed
        shutil.rmtree(remains)
    log = home / "build.log"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="unfinished-", dir=home) as folder, log.open("w") as output:
        say(f"horovod: building {version()} once, one to five minutes")
        build = _Commands(Path(folder), output, lock, begun)
        source = _source(build)
        local, jobs = version().partition("+")[2], len(os.sched_getaffinity(0))
        settings = SETTINGS | {"HOROVOD_LOCAL_VERSION": local, "MAKEFLAGS": f"-j{jobs}"}
        build.run("compiling", [sys.executable, "setup.py", "-q", "bdist_wheel"], source, settings)
        built = next((source / "dist").glob("*.whl"))
        kept = built.replace(home / built.name)
    say(f"horovod: built after {time.monotonic() - begun:.0f} s")
    return kept


def _source(build: _Commands) -> Path:
    """The release, checked, unpacked and patched."""
    wanted = build.folder / "requirements.txt"
    wanted.write_text(f"horovod=={RELEASE} --hash=sha256:{SHA256}\n")
    options = ["--no-deps", "--no-build-isolation", "--no-binary=:all:", "--require-hashes"]
    build.run("downloading", [*_PIP, "download", *options, "-r", wanted.name], build.folder)
    with tarfile.open(build.folder / f"horovod-{RELEASE}.tar.gz") as release:
        release.extractall(build.folder)  # noqa: S202 - its hash has been checked; Debian's 3.11 has no filters
    source = build.folder / f"horovod-{RELEASE}"
    patches = build.folder / "all.patch"
    patches.write_text("".join(patch.read_text() for patch in _patches()))
    build.run("patching", ["patch", "-p1", "--fuzz=0", "--batch", "-i", str(patches)], source)
    return source


class _Commands:
    """Runs the commands of one build, each in `folder`, and says how far they are."""

    def __init__(self, folder: Path, output: IO[str], lock: IO[str], begun: float) -> None:
        self.folder, self._output, self._lock, self._begun = folder, output, lock, begun

    def run(
        self, what: str, command: list[str], folder: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        """Run to the end, with its words in the log; `what` it does is told to the user."""
        self._tell(what)
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(settings or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=[self._lock.fileno()],
        )
        try:
            self._watch(process, what)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            process.wait()
        if process.returncode:
            self._fail(what)

    def _watch(self, process: subprocess.Popen[str], what: str) -> None:
        told = 0
        assert process.stdout is not None
        for line in process.stdout:
            self._output.write(line)
            share = re.match(r"\[ *(\d+)%\]", line)
            if share and int(share[1]) >= told + 20:
                told = int(share[1])
                self._tell(f"{what}, {told} %")

    def _tell(self, what: str) -> None:
        say(f"horovod: {what} ({time.monotonic() - self._begun:.0f} s)")

    def _fail(self, what: str) -> NoReturn:
        self._output.flush()
        lines = Path(self._output.name).read_text(errors="replace").splitlines()
        errors = [line.strip() for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
        words = (errors or lines or ["it said nothing"])[0][:300]
        raise ElasticError(
            f"Horovod could not be built: {what} failed: {words}", where=self._output.name, remedy=REMEDY
        )


def _can_build() -> None:
    """Refuse at once, and name everything that is missing."""
    if sys.platform != "linux":
        raise InputError(
            f"Horovod is built on Linux only, not on {sys.platform}: AllReduce jobs cannot run here"
        )
    if modules := [name for name in MODULES if importlib.util.find_spec(name) is None]:
        raise InputError(
            f"AllReduce jobs need Horovod, and building it needs the Python packages {', '.join(modules)}",
            remedy=installing("train,allreduce"),
        )
    if tools := [name for name in TOOLS if shutil.which(name) is None]:
        raise InputError(
            f"AllReduce jobs need Horovod, and building it needs {', '.join(tools)}; all else works without",
            remedy=f"sudo apt-get install -y {' '.join(tools)}; {REMEDY}",
        )


def main() -> int:
    """Build if need be; say where the wheel is, or install it, or put a copy into a folder."""
    parser = argparse.ArgumentParser(prog=REMEDY.removesuffix(" --install"), description="Builds Horovod.")
    parser.add_argument("--install", action="store_true", help="install it into this virtual environment")
    parser.add_argument("--to", metavar="FOLDER", type=Path, help="copy the wheel into this folder")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if arguments.install:
        install()
    if arguments.to:
        arguments.to.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel(), arguments.to)
    if not (arguments.install or arguments.to):
        sys.stdout.write(f"{wheel()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(outcome(main))
