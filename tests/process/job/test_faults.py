"""What can go wrong beside being killed: user code, data, disk, memory, ports, processes that stand still."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import MakeRun, write_data

from elastic_runtime.observe import events

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

MEGABYTE = 1 << 20


def test_an_exception_in_feed_is_shown_once_and_fails_the_job_with_the_record_range(
    make_run: MakeRun, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "odd", 256, 1, odd=100)
    run = make_run("--num_workers=2", "--max_task_attempts=3", data=data, model="faulty").start()
    run.assert_right_end(1, "failed", exact=False)
    assert run.text().count("in check") == 1, run.text()
    assert run.text().count('raise ValueError(f"a sensor says') == 1
    verdict = run.text().splitlines()[-1]
    assert "ValueError: a sensor says 999" in verdict
    assert re.search(rf"records 64-128 of {data}/data-00000: .*\(attempt 3\)", verdict)


def test_a_worker_that_stood_still_longer_than_its_lease_reports_in_vain(make_run: MakeRun) -> None:
    run = make_run("--num_workers=2", "--lease_timeout=4")
    run.pace(0.03)
    run.start().until_training(workers=2)
    run.until_done(100)
    run.kill("worker-0", number=signal.SIGSTOP)
    expired, refused = said(run.text()), said(run.log("worker-0"))  # at its beginning a worker is slow, too
    run.until(lambda: said(run.text()) > expired, "the work of worker-0 goes to others")
    run.kill("worker-0", number=signal.SIGCONT)
    run.until(lambda: said(run.log("worker-0")) > refused, "the late report is refused")
    run.pace(0)
    summary = run.assert_right_end()
    assert summary["records_retrained"] > 0
    assert summary["relaunches"] == {}


def said(text: str) -> int:
    """How often a log tells of work that was taken from worker 0."""
    return len(
        re.findall(
            r"worker-0 made no progress for 4 s: its work goes to others"
            r"|the master refused (?:finished|given_back) of shard",
            text,
        )
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None] | None]]:
    """A folder that holds no more than a megabyte: a disk of its own if we may mount one, else by a limit."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() == 0 and subprocess.run(command, check=False).returncode == 0:
        yield folder, None
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    else:
        yield folder, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MEGABYTE, 2 * MEGABYTE))


def test_a_full_disk_costs_the_checkpoint_and_not_the_job(
    make_run: MakeRun, small_disk: tuple[Path, Callable[[], None] | None]
) -> None:
    folder, before = small_disk
    run = make_run("--num_workers=1", "--checkpoint_steps=20", f"--checkpoint_dir={folder}", model="wide")
    run.start(before=before)
    summary = run.assert_right_end()
    assert re.search(
        r"the checkpoint of version \d+ could not be written: .*(No space left|File too large)", run.text()
    )
    assert summary["checkpoints"] == 0
    assert list(folder.iterdir()) == []


def test_data_cut_in_the_middle_before_the_start_is_bad_input(
    make_run: MakeRun, data: Path, tmp_path: Path
) -> None:
    cut = shutil.copytree(data, tmp_path / "cut")
    halve(cut / "data-00001")
    run = make_run("--num_workers=1", data=cut).start()
    assert run.ends() == 2
    [error] = [line for line in run.text().splitlines() if line.startswith("error: ")]
    assert f"{cut}/data-00001" in error
    assert re.search(r"record", error)
    assert run.processes() == []
    assert run.temporary_files() == []


def test_data_cut_in_the_middle_while_training_fails_the_job_with_file_and_records(
    make_run: MakeRun, data: Path, tmp_path: Path
) -> None:
    cut = shutil.copytree(data, tmp_path / "cut")
    run = make_run("--num_workers=1", "--shuffle_shards=false", data=cut)
    run.pace(0.03)
    run.start().until_done(64)
    halve(cut / "data-00002")
    run.pace(0)
    run.assert_right_end(1, "failed", exact=False)
    verdict = run.text().splitlines()[-1]
    assert re.search(rf"records \d+-\d+ of {cut}/data-00002", verdict)


def test_data_that_is_away_for_a_moment_costs_a_shard_an_attempt_and_not_the_job(
    make_run: MakeRun, data: Path, tmp_path: Path
) -> None:
    files = shutil.copytree(data, tmp_path / "files")
    away = files / "data-00002"
    run = make_run("--num_workers=1", "--shuffle_shards=false", data=files)
    run.pace(0.03)
    run.start().until_done(64)
    away.rename(tmp_path / "elsewhere")
    run.pace(0)
    run.until_said(rf"records \d+-\d+ of {away} go back to the queue: failed: {away}: cannot be opened")
    (tmp_path / "elsewhere").rename(away)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {}


def test_a_taken_port_is_one_clear_error(make_run: MakeRun) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = make_run("--num_workers=1", f"--port={port}").start()
        assert run.ends() == 1
    errors = [line for line in run.text().splitlines() if "rror" in line]
    assert len(errors) == 1, run.text()
    assert f"127.0.0.1:{port}" in errors[0]
    assert "taken" in errors[0]
    assert "Traceback" not in run.text()
    assert run.processes() == []
    run.command.remove(f"--port={port}")
    run.start().assert_right_end()


def test_no_memory_is_said_in_plain_words(make_run: MakeRun) -> None:
    limit = 1300 * MEGABYTE  # enough for the master, not for TensorFlow
    run = make_run("--num_workers=1")
    run.start(before=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    run.assert_right_end(1, "failed", exact=False)
    verdict = run.text().splitlines()[-1]
    assert "out of memory" in verdict, run.text()
    assert any(event.cause == "out_of_memory" for event in run.events(events.PodEnded))


def halve(path: Path) -> None:
    """Cut the file in the middle."""
    os.truncate(path, path.stat().st_size // 2)
