"""The steps while they run: a tree on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pipelines.engines import Phase, Step
from pipelines.engines.view import View

WAITS, RUNS = Step("train"), Step("train", Phase.RUNNING, "100 of 200", began=1000.0)
DONE = Step("train", Phase.SUCCEEDED, began=1000.0, ended=1041.0)


def test_without_a_terminal_each_change_of_a_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with View("mnist", Console(file=io.StringIO())) as view:
        for steps in ([WAITS], [WAITS], [RUNS], [RUNS], [DONE], [DONE]):
            view.show([Step("convert", Phase.SUCCEEDED, began=1.0, ended=3.0), *steps])
    assert capsys.readouterr().err.splitlines() == [
        "convert      succeeded in 2 s",
        "train        running, 100 of 200",
        "train        succeeded in 41 s",
    ]


def test_a_reason_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with View("mnist", Console(file=io.StringIO())) as view:
        view.show([Step("train", Phase.FAILED, "one\ntwo")])
    assert capsys.readouterr().err == "train        failed, one two\n"


@pytest.mark.parametrize(("encoding", "sign"), [("utf-8", "✓"), ("ascii", "+")])
def test_a_terminal_shows_a_tree_that_it_can_show(encoding: str, sign: str) -> None:
    seen = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=seen, force_terminal=True, width=100, color_system=None)
    with View("mnist, workflow mnist-x", console) as view:
        view.show([DONE, Step("evaluate", detail="waits for [this]\nand that")])
    seen.flush()
    text = seen.buffer.getvalue().decode(encoding)
    assert "mnist, workflow mnist-x" in text
    assert f"{sign} train     succeeded in 41 s" in text
    assert "evaluate  waiting, waits for [this] and that" in text


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_reason_goes_on_under_its_beginning(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width)
    with View("mnist", console) as view:
        view.show([DONE, Step("evaluate", Phase.FAILED, "word " * 40)])
        console.print(view.tree())
    lines = console.file.getvalue().splitlines()
    first = next(number for number, line in enumerate(lines) if "✗ evaluate" in line)
    place = lines[first].index("failed")
    assert all(len(line.rstrip()) <= width for line in lines[first:])
    assert lines[first + 1].index("word") == place
