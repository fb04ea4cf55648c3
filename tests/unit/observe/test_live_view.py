from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from made_up_runs import BEGIN, RUNS, five_hundred_workers, mnist
from rich.cells import cell_len
from rich.console import Console

from elastic_runtime.cli.live import LiveView, _Screen, live_view
from elastic_runtime.observe.events import Event
from elastic_runtime.observe.history import History
from elastic_runtime.observe.live_state import LiveState, PodState, live_state


def at(events: list[Event], seconds: float, **values: object) -> LiveState:
    history = History.of(e for e in events if e.time <= BEGIN + seconds)
    return live_state(history, now=BEGIN + seconds, **values)  # type: ignore[arg-type]


def screen(state: LiveState, *, width: int = 100, height: int = 30) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, height=height, color_system=None)
    console.print(_Screen(state), height=height)
    return file.getvalue().splitlines()


def test_screen_tells_how_far_how_fast_how_good_and_on_which_pods() -> None:
    lines = "\n".join(screen(at(mnist(), 53, seconds_left=38.0)))
    for words in (
        "mnist  running  epoch 2 of 2  53 s",
        "of 12 000 records",
        "38 s left",
        "records/s",
        "accuracy 0.965, loss 0.127 (version 300)",
        "● worker-0  running",
        "○ worker-5  waiting to start",
        "✗ worker-3  ran out of memory",
        "52 s  worker-5 started as a replacement after lack of memory",
    ):
        assert words in lines


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("width", "height"), [(200, 60), (80, 24), (40, 10), (20, 6), (5, 3)])
def test_screen_fits_any_terminal(run: str, width: int, height: int) -> None:
    lines = screen(at(RUNS[run](), 40.0), width=width, height=height)
    assert len(lines) <= max(5, height)
    assert max(cell_len(line) for line in lines) <= width


def test_five_hundred_workers_are_counted_and_those_in_trouble_named() -> None:
    lines = screen(at(five_hundred_workers(), 2400), height=40)
    assert len(lines) < 40
    (census,) = [line for line in lines if "workers:" in line]
    assert "running" in census
    assert "waiting" in census
    assert "lost" in census
    assert any(line.startswith("○ worker-") for line in lines)


def test_metrics_are_shown_as_far_as_there_is_room() -> None:
    state = at(mnist(), 53)
    assert "accuracy 0.965, loss 0.127 (version 300)" in screen(state, width=120)[2]
    assert screen(state, width=80)[2].endswith("accuracy 0.965, loss 0.127")
    assert screen(state, width=70)[2].endswith("accuracy 0.965")
    assert screen(state, width=50)[2].endswith("version 588")


def test_what_the_job_waits_for_is_said() -> None:
    state = at(mnist(), 0.3, message="waiting for a worker: 0/3 nodes are available")
    assert "waiting for a worker: 0/3 nodes" in screen(state)[0]


def test_terminal_without_unicode_gets_plain_signs() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    console = Console(file=file, force_terminal=True, width=80, height=30, color_system=None)
    console.print(_Screen(at(mnist(), 53)))
    file.flush()
    assert b"* worker-0  running" in file.buffer.getvalue()  # type: ignore[attr-defined]


def test_text_from_a_pod_cannot_steer_the_terminal_or_break_its_encoding() -> None:
    pod = PodState(name="w\x1b[2J\udcff", role="worker", state="pending", words="waiting:\nno\rroom\x07")
    lines = screen(LiveState(job="j\x1b]0;x\x07", pods=(pod,)))
    assert "\x1b" not in "".join(lines).replace("\x1b[0m", "")
    assert "○ w [2J   waiting: noroom" in "\n".join(lines)


def test_there_is_no_live_view_without_a_terminal() -> None:
    assert live_view() is None


def test_view_leaves_nothing_behind() -> None:
    file = io.StringIO()
    with LiveView(Console(file=file, force_terminal=True, width=80, height=24)) as view:
        view.show(at(mnist(), 20))
        view.show(at(mnist(), 30))
    assert "mnist" in file.getvalue()
    assert file.getvalue().endswith("\x1b[1A\x1b[2K")
    assert "\x1b[?25h" in file.getvalue()


def test_log_lines_scroll_above_the_view_of_a_real_terminal() -> None:
    code = """
import logging
from elastic_runtime.cli.live import live_view
from elastic_runtime.observe import log
from elastic_runtime.observe.live_state import LiveState
log.set_up()
with live_view() as view:
    view.show(LiveState(job="mnist"))
    logging.info("in between")
    view.show(LiveState(job="mnist"))
logging.info("the verdict")
"""
    shown = _on_a_terminal(code)
    assert shown.count("in between") == 1
    assert shown.index("in between") < shown.rindex("running")
    assert shown.rstrip().endswith("the verdict")


@pytest.mark.parametrize("forced", [False, True])
def test_view_of_a_terminal_that_is_gone_says_so_and_ends(tmp_path: Path, forced: bool) -> None:
    """A window is closed, and the job in it goes on in the background."""
    heard = tmp_path / "heard"
    code = f"""
import pathlib, sys
from rich.console import Console
from elastic_runtime.cli.live import LiveView
from elastic_runtime.observe.live_state import LiveState
heard = pathlib.Path({str(heard)!r})
with LiveView(Console(stderr=True, force_terminal={forced} or None)) as view:
    view.show(LiveState(job="mnist"))
    sys.stdin.read()
    try:
        view.show(LiveState(job="mnist"))
    except OSError as problem:
        heard.write_text(f"{{problem}}")
sys.exit(3)
"""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        cwd=Path.cwd(),
    )
    os.close(theirs)
    shown = b""
    while b"mnist" not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    process.communicate(timeout=60)
    assert process.returncode == 3
    assert heard.exists()


def _on_a_terminal(code: str) -> str:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    program = [sys.executable, "-c", code]
    process = subprocess.Popen(
        program, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=Path.cwd()
    )
    os.close(theirs)
    output = b""
    try:
        while part := os.read(ours, 65536):
            output += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0, output.decode()
    return output.decode()
