"""The builder says what is missing before it begins, and does nothing where nothing is to be done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from elastic_runtime.platform import allreduce
from elastic_runtime.worker.allreduce.horovod import build

BUILD = [sys.executable, "-m", "elastic_runtime.worker.allreduce.horovod.build"]


def environment(tmp_path: Path, *tools: str) -> dict[str, str]:
    """One with an empty cache, in which only these tools are found."""
    (tmp_path / "bin").mkdir()
    for tool in tools:
        (tmp_path / "bin" / tool).symlink_to(shutil.which("true") or "/bin/true")
    return {**os.environ, "PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_missing_tools_are_all_named_before_anything_is_fetched(tmp_path: Path) -> None:
    env = environment(tmp_path, "make", "patch")
    result = subprocess.run(BUILD, check=False, env=env, capture_output=True, text=True, timeout=240)
    assert result.returncode == 2
    assert "needs g++, cmake; all else works without (sudo apt-get install -y g++ cmake;" in result.stderr
    assert sorted(path.name for path in (tmp_path / "cache/elasticdl/horovod").iterdir()) == ["lock"]


def test_what_a_killed_builder_left_is_removed_and_a_failure_says_where_its_words_are(tmp_path: Path) -> None:
    env = {**environment(tmp_path, *build.TOOLS), "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0"}
    home = tmp_path / "cache/elasticdl/horovod"
    (home / "unfinished-killed/horovod-0").mkdir(parents=True)
    result = subprocess.run(BUILD, check=False, env=env, capture_output=True, text=True, timeout=240)
    assert result.returncode == 1
    assert f"error: {home / 'build.log'}: Horovod could not be built: downloading failed: " in result.stderr
    assert sorted(path.name for path in home.iterdir()) == ["build.log", "lock"]


def test_an_installed_build_needs_neither_tools_nor_cache(tmp_path: Path) -> None:
    if not build.installed():
        pytest.skip(f"Horovod is not installed here: {allreduce.REMEDY}")
    env = environment(tmp_path)
    subprocess.run([*BUILD, "--install"], env=env, check=True, timeout=240)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("horovod", "reason"),
    [
        (None, "Horovod, which AllReduce jobs need, is not installed"),
        ("0.28.1", "the Horovod installed here (0.28.1) lacks the mending"),
        ("0.28.1+elasticdl.tf2.19.1.p0a1b2c3d", "is for TensorFlow 2.19.1, not 2.21.0"),
        ("0.28.1+elasticdl.tf2.21.0.p0a1b2c3d", None),
    ],
)
def test_a_horovod_that_cannot_serve_is_told_from_one_that_can(
    monkeypatch: pytest.MonkeyPatch, horovod: str | None, reason: str | None
) -> None:
    versions = {"horovod": horovod, "tensorflow-cpu": "2.21.0"}

    def version(package: str) -> str:
        if found := versions.get(package):
            return found
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", version)
    why = allreduce.why_no_allreduce()
    assert why == reason or (reason is not None and why is not None and reason in why)


def test_neither_the_check_nor_the_builder_imports_what_is_heavy() -> None:
    code = (
        "import sys, elastic_runtime.worker.allreduce.horovod.build;"
        "sys.exit(bool({'tensorflow', 'horovod', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
