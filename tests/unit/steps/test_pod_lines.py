"""The step's log has the important lines of its pods, each with the pod's name, and each once."""

from __future__ import annotations

from pathlib import Path

from elastic_runtime.steps.pod_lines import MOST_LINES, PodLines


def entry(level: str, words: str) -> str:
    return f"[2026-11-18 12:00:00,000] [{level}] [app.py:1:run] {words}\n"


def log(folder: Path, pod: str, text: str) -> None:
    with (folder / f"elasticdl-j-{pod}.log").open("a") as file:
        file.write(text)


def test_errors_with_their_tracebacks_warnings_and_losses_are_important(tmp_path: Path) -> None:
    lines = PodLines(tmp_path, "j")
    trace = "Traceback:\n  File x\nValueError: y\n"
    log(tmp_path, "worker-0", "noise\n" + entry("INFO", "hello") + entry("ERROR", "broke") + trace)
    log(tmp_path, "worker-1", entry("INFO", "Loss = 0.5, steps = 100") + entry("WARNING", "slow"))
    log(tmp_path, "master", entry("ERROR", "said by this process already"))
    assert list(lines.new()) == [
        "worker-0 | broke",
        "worker-0 | Traceback:",
        "worker-0 |   File x",
        "worker-0 | ValueError: y",
        "worker-1 | Loss = 0.5, steps = 100",
        "worker-1 | slow",
    ]
    assert list(lines.new()) == []


def test_a_line_is_said_when_it_is_whole_and_an_error_goes_on_later(tmp_path: Path) -> None:
    lines = PodLines(tmp_path, "j")
    whole = entry("ERROR", "broke") + "more\n"
    log(tmp_path, "ps-0", whole[:70])
    first = list(lines.new())
    log(tmp_path, "ps-0", whole[70:])
    assert first + list(lines.new()) == ["ps-0 | broke", "ps-0 | more"]


def test_what_an_earlier_attempt_has_said_is_not_said_again(tmp_path: Path) -> None:
    log(tmp_path, "worker-0", entry("ERROR", "before"))
    lines = PodLines(tmp_path, "j")
    log(tmp_path, "worker-0", entry("ERROR", "now"))
    assert list(lines.new()) == ["worker-0 | now"]


def test_a_pod_that_says_too_much_is_cut_short(tmp_path: Path) -> None:
    lines = PodLines(tmp_path, "j")
    log(tmp_path, "worker-0", entry("WARNING", "again") * (MOST_LINES + 30))
    said = list(lines.new())
    assert len(said) == MOST_LINES + 1
    assert "30 more lines" in said[-1]
