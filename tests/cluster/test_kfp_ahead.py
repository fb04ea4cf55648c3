"""Kubeflow Pipelines' programs are made beside the tests that need none, and nobody loses sight of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic_runtime.errors import ElasticError
from tests.cluster.kit.cluster import PATIENCE_SECONDS
from tests.cluster.kit.commands import until
from tests.cluster.kit.kfp_ahead import Ahead


def test_who_needs_the_programs_waits_until_all_is_done_that_can_be(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flag = tmp_path / "flag"
    ahead = Ahead.begun(["sh", "-c", f"until [ -e {flag} ]; do sleep 0.05; done; exit 3"])
    try:
        with pytest.raises(ElasticError, match="are not there after 0 s"):
            ahead.wait(seconds=0.1)
        flag.touch()
        ahead.wait(PATIENCE_SECONDS)  # whose failure whoever needs them meets, too, and tells
        assert ahead.process.returncode == 3
    finally:
        ahead.close()
    assert "waiting for the programs of Kubeflow Pipelines" in capfd.readouterr().err


def test_a_session_that_ends_before_ends_what_makes_them_with_all_that_it_has_started(tmp_path: Path) -> None:
    kept = tmp_path / "number"
    ahead = Ahead.begun(["sh", "-c", f"sleep 600 & echo $! >{kept}; wait"])  # which hears no Ctrl-C

    def number() -> str:
        return kept.read_text().strip() if kept.exists() else ""

    try:
        until(lambda: number() != "", what="it has started another", seconds=PATIENCE_SECONDS)
    finally:
        ahead.close()
    assert ahead.process.returncode is not None
    until(lambda: not lives(number()), what="the other ends", seconds=PATIENCE_SECONDS)


def lives(number: str) -> bool:
    """Whether there is a process of this number that has not ended: one that has is called nothing."""
    try:
        return bool(Path("/proc", number, "cmdline").read_bytes())
    except FileNotFoundError:
        return False
