"""The command around the benchmarks, and what each of them must offer. None is run here."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests import took
from tests.benchmarks import __main__ as command
from tests.benchmarks import checks, rows
from tests.benchmarks.page import Result, page
from tests.benchmarks.rows import Row

FOLDER = Path(rows.__file__).parent


@pytest.mark.parametrize("name", command.BENCHMARKS)
def test_benchmark_says_what_it_measures_and_runs_without_arguments(name: str) -> None:
    module = importlib.import_module(f"tests.benchmarks.{name}")
    run = inspect.signature(module.run)
    run.bind()
    assert run.return_annotation == "list[Row]"
    assert len(module.__doc__ or "") > 100


def test_no_benchmark_is_forgotten() -> None:
    assert {path.stem for path in FOLDER.glob("*.py") if "\ndef run(" in path.read_text()} == set(
        command.BENCHMARKS
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "bar", "better", "met"),
    [
        (10.0, 5.0, ">= 2.0x", "higher", True),
        (10.0, 6.0, ">= 2.0x", "higher", False),
        (10.0, 20.0, ">= 0.4", "higher", True),
        (10.0, 50.0, ">= 0.4", "higher", False),
        (10.0, None, ">= 20", "higher", False),
        (500.0, None, "> 98 (old system)", "higher", True),
        (2.9, 0.1, "<= 3 s", "lower", True),
        (3.1, 100.0, "<= 3 s", "lower", False),
        (3.1, None, "-", "lower", None),
        (3.1, None, "", "lower", None),
    ],
)
def test_bar_is_about_the_ratio_or_our_own_figure(
    ours: float, theirs: float | None, bar: str, better: str, met: bool | None
) -> None:
    assert Row("x", ours, theirs, "s", bar, better).met is met  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bar", "theirs", "better"),
    [("fast", 1.0, "higher"), (">= 2.0x", None, "higher"), (">= 2", 1.0, "lower"), (">=2", 1.0, "higher")],
)
def test_row_with_a_bar_that_means_nothing_is_refused(bar: str, theirs: float | None, better: str) -> None:
    with pytest.raises(ValueError, match="x: "):
        Row("x", 1.0, theirs, "s", bar, better)  # type: ignore[arg-type]


def test_failed_benchmark_is_told_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, sound = _benchmark("broken"), _benchmark("sound")
    broken.run = lambda: 1 / 0  # type: ignore[attr-defined]
    sound.run = lambda: [Row("walk", 3.0, 2.0, "km/h", ">= 2.0x", "higher")]  # type: ignore[attr-defined]
    for module in (broken, sound):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(command, "BENCHMARKS", ("broken", "sound"))
    assert command.main([]) == 1
    out, err = capsys.readouterr()
    assert "ZeroDivisionError" in err
    assert ["walk", "3", "2", "km/h", "1.50x", ">=", "2.0x", "NO"] in [
        line.split() for line in out.splitlines()
    ]


def test_page_keeps_what_was_not_measured_now() -> None:
    first, second = (Row(name, 3.0, 2.0, "km/h", ">= 1.2x", "higher") for name in ("walk", "run"))
    slower = Row("run", 2.0, 2.0, "km/h", ">= 1.2x", "higher")
    whole = page(
        [Result(rows, [first], "", 1.0, "Monday"), Result(command, [second], "", 1.0, "Monday")], {"on": "a"}
    )
    again = page(
        [Result(command, [slower], "", 1.0, "Tuesday")], {"on": "b"}, before=whole, order=("__main__", "rows")
    )
    assert again.index("| run | 2 | 2 | km/h | 1.00x | >= 1.2x | NO |") < again.index("| walk | 3 | 2")
    assert (again.count("Monday"), again.count("Tuesday"), again.count("| run |")) == (1, 1, 1)
    assert "1 of 2 bars are met." in again
    assert again.endswith("- on: b\n")
    assert "on: a" not in again
    assert page([], {"on": "b"}, before=again) == again


def test_page_counts_the_bars_met_and_tells_what_failed() -> None:
    sound = Row("walk", 3.0, 2.0, "km/h", ">= 1.2x", "higher")
    unjudged = Row("stroll", 3.0, None, "km/h", "-", "higher")
    results = [Result(rows, [sound, unjudged], "", 1.0), Result(command, [], "OSError: disk full", 2.0)]
    text = page(results, {"machine": "2 cores"})
    assert "1 of 1 bars are met." in text
    assert "| walk | 3 | 2 | km/h | 1.50x | >= 1.2x | yes |" in text
    assert "did not come to its end: OSError: disk full" in text
    assert "- machine: 2 cores" in text


def test_a_bar_that_nobody_measured_here_is_shown_and_not_called_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    took.note(".ci/run, again", 1800.0)
    took.note("all tests", 1700.0)
    text = page([Result(checks, checks.noted(), "", 1.0)], {})
    assert "| .ci/run, again | 1,800 |  | s |  | <= 2700 s | yes |" in text
    assert "| .ci/run, on a machine that had nothing |  |  | s |  | <= 4800 s | not measured |" in text
    others = len(checks.BARS) - 1
    assert f"1 of {others + 1} bars are met, {others} not measured." in text
    assert text == page([], {}, before=text)


def _benchmark(name: str) -> ModuleType:
    return ModuleType(f"tests.benchmarks.{name}", "Made up.")
