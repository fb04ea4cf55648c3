"""A pipeline that runs here is followed like one elsewhere: each step's course, and what it says."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[3]
PIPELINE = """
import sys

from kfp import dsl

from pipelines.command import main


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def first(start: int) -> int:
    print("it counts", flush=True)
    return start


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def second(number: int, bad: bool) -> str:
    import sys

    if bad:
        sys.exit(f"error: {number} is bad")
    return "good"


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def third(text: str):
    pass


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def last():
    pass


@dsl.pipeline(name="four")
def four(bad: bool = False, start: int = 3):
    with dsl.ExitHandler(last()):
        third(text=second(number=first(start=start).output, bad=bad).set_retry(2).output)


sys.exit(main(four))
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "four.py").write_text(PIPELINE)
    return [sys.executable, "four.py", "--engine=local"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **more}


def test_a_step_that_fails_here_is_not_tried_again_as_elsewhere(command, tmp_path) -> None:
    ended = subprocess.run(
        [*command, "--param=bad=true"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines().count("error: 3 is bad") == 1
    assert "maxRetryCount: 2" in (tmp_path / "build" / "four.kfp.yaml").read_text()


def test_a_terminal_has_the_tree_at_its_end_and_above_it_what_steps_say(command, tmp_path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*command, "--param=bad=true"],
        cwd=tmp_path,
        env=environment(COLUMNS="80", LINES="30"),
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.extend(_all_of(ours)))
    reader.start()
    try:
        assert process.wait(500) == 1
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", b"".join(said).decode()).replace("\r\n", "\n")
    *_, tree = text.split("four, on this machine\n")
    assert re.match(
        r"├── ✓ first   succeeded in .*\n"
        r"├── ✗ second  failed in .*, 3 is bad\n"
        r"├── - third   skipped\n"
        r"└── ✓ last    succeeded in .*\n",
        tree,
    ), text
    assert tree.splitlines()[-1].startswith("error: the pipeline failed: second: ")
    assert tree.splitlines()[-1].endswith("3 is bad")
    assert "it counts\n" in text
    assert "executor" not in text.lower()
    assert "-----" not in text


def _all_of(terminal: int) -> list[bytes]:
    """What is written until nobody can any more."""
    found = []
    while True:
        try:
            found.append(os.read(terminal, 65536))
        except OSError:
            return found


def test_two_at_once_in_one_folder_tell_without_a_terminal_each_its_own_course_in_lines(
    command, tmp_path
) -> None:
    started = {
        start: subprocess.Popen(
            [*command, f"--param=start={start}"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for start in (30, 40)
    }
    said = {start: run.communicate(timeout=500) for start, run in started.items()}
    results = {
        start: re.findall(r"^first +.*: (\d+)$", out, re.MULTILINE) for start, (out, _) in said.items()
    }
    assert results == {30: ["30"], 40: ["40"]}
    out, told = said[30]
    assert started[30].returncode == 0, told
    course = re.sub(r" in [\d.]+ \w+$", "", told, flags=re.MULTILINE).splitlines()
    begins = next(number for number, line in enumerate(course) if line.startswith("runs on this machine"))
    assert course[begins + 1 :] == [
        "first        running",
        "it counts",
        "first        succeeded",
        "second       running",
        "second       succeeded",
        "third        running",
        "third        succeeded",
        "last         running",
        "last         succeeded",
    ]
    assert "first      Output: 30\n" in out
