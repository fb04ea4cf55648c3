"""Whom the clean-up ends in a run folder that is on a volume, where a process id may be of another pod."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.platform.process.claim import LOCK, claim
from elastic_runtime.steps.clean_up import clean_up

HOLDER = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(); sys.stdin.read()"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_master_in_another_pod_is_left_alone_and_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[int] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda _, number: signals.append(number))
    monkeypatch.setattr("elastic_runtime.steps.clean_up.GRACE_SECONDS", 0)
    monkeypatch.setenv("ELASTICDL_POD", "w-train-1")
    with claim(run, "j"):
        monkeypatch.setenv("ELASTICDL_POD", "w-clean-up-2")
        with pytest.raises(InputError, match=r"process \d+ in w-train-1 since .* delete pod w-train-1"):
            clean_up(job_name="j", run_dir=str(run))
    assert signals == []


def test_a_master_that_cannot_be_found_here_is_an_error_that_tells_of_it(run: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    with claim(run, "j"):
        (run / LOCK).write_text(json.dumps({"job": "j", "pid": ended.pid, "since": 0}))
        with pytest.raises(InputError, match=f"job 'j' is run by process {ended.pid} since"):
            clean_up(job_name="j", run_dir=str(run))


def test_a_master_that_is_just_starting_is_an_error_that_tells_of_it(run: Path) -> None:
    with claim(run, "j"):
        (run / LOCK).write_text("")
        with pytest.raises(InputError, match="another master is just starting here"):
            clean_up(job_name="j", run_dir=str(run))


def test_a_master_that_wrote_only_its_id_is_one_of_here(run: Path) -> None:
    run.mkdir()
    (run / LOCK).touch()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDER, run / LOCK], **pipes) as master:
        assert master.stdout.readline() == b"\n"
        (run / LOCK).write_text(json.dumps({"job": "j", "pid": master.pid, "since": 0}))
        assert clean_up(job_name="j", run_dir=str(run)) == ["master"]
    assert master.returncode == -signal.SIGTERM
