"""What a process loads before it does anything: a restarted master and a replaced worker are waited for."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("modules", "needless"),
    [
        ("elastic_runtime.cli.launch, elastic_runtime.master.app", {"tensorflow", "keras", "numba", "rich"}),
        ("elastic_runtime.worker.app", {"tensorflow", "keras", "numba", "click"}),
        ("elastic_runtime.ps.app", {"tensorflow", "keras", "fsspec", "click"}),
    ],
    ids=["master", "worker before it knows its job", "parameter server"],
)
def test_process_starts_without_what_it_does_not_need(modules: str, needless: set[str]) -> None:
    code = f"import sys, {modules}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not needless & set(run.stdout.split())
