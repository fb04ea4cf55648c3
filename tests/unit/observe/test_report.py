from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_runs import (
    BEGIN,
    FACTS,
    RUNS,
    allreduce,
    failure,
    five_hundred_workers,
    mnist,
    not_a_number,
    running,
    week,
)

from elastic_runtime.observe import events as ev
from elastic_runtime.observe.events import Event
from elastic_runtime.observe.history import History
from elastic_runtime.observe.report import Fact, pod_table_markdown, render
from elastic_runtime.observe.report.happenings import story
from elastic_runtime.observe.report.markup import el
from elastic_runtime.observe.report.notes import Note, annotate
from elastic_runtime.observe.report.scales import elapsed, linear, loss, positions
from elastic_runtime.observe.summary import summarize
from elastic_runtime.observe.words import end

UNITS = re.compile(r"(seconds|minutes|hours|days) since start|model version")
HOSTILE = "<script>alert(1)</script>\"'&\x00\udcff<b>"


def page(events: list[Event], facts: Iterable[Fact] = FACTS) -> ET.Element:
    """The report, parsed: fails if it is not well-formed."""
    text = render(events, summarize(History.of(events)), list(facts))
    text.encode()
    return ET.fromstring(text)


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def figures(root: ET.Element) -> dict[str, ET.Element]:
    return {words(figure.find("figcaption/h3")): figure for figure in root.iter("figure")}  # type: ignore[arg-type]


def notes(chart: ET.Element) -> list[str]:
    return [words(text) for text in chart.iter("text") if (text.get("class") or "").startswith("note")]


def marks(chart: ET.Element, shape: str) -> list[str]:
    return [words(mark) for mark in chart.iter("svg") if mark.get("class") == f"mark {shape}"]


@pytest.mark.parametrize("run", RUNS)
def test_page_needs_nothing_but_itself(run: str) -> None:
    root = page(RUNS[run]())
    names = {element.tag for element in root.iter()}
    assert not names & {
        "script",
        "link",
        "img",
        "image",
        "iframe",
        "object",
        "use",
        "a",
        "base",
        "foreignObject",
    }
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert "href" not in name
            assert "src" not in name
            assert "url(" not in value
    style = words(root.find("head/style"))  # type: ignore[arg-type]
    assert not re.search(r"url\(|@import|http", style)


@pytest.mark.parametrize("run", RUNS)
def test_every_chart_has_names_units_ticks_and_a_description(run: str) -> None:
    for chart in (svg for svg in page(RUNS[run]()).iter("svg") if svg.get("class") == "chart"):
        assert chart.get("role") == "img"
        assert words(chart.find("title"))  # type: ignore[arg-type]
        assert words(chart.find("desc"))  # type: ignore[arg-type]
        texts = [(text.get("class"), words(text)) for text in chart.iter("text")]
        (across,) = [text for class_, text in texts if class_ == "axis-name x"]
        (upwards,) = [text for class_, text in texts if class_ == "axis-name y"]
        assert UNITS.fullmatch(across)
        assert upwards
        assert sum(class_ == "tick" for class_, _ in texts) >= 4


@pytest.mark.parametrize("run", RUNS)
def test_no_place_in_a_chart_is_nonsense(run: str) -> None:
    for element in page(RUNS[run]()).iter():
        for name, value in element.attrib.items():
            if name in {"x", "y", "cx", "cy", "x1", "x2", "y1", "y2", "width", "d", "transform"}:
                assert "nan" not in value
                assert "inf" not in value
                if value.endswith("%"):
                    assert 0 <= float(value[:-1]) <= 100


@pytest.mark.parametrize(
    ("run", "limit"), [(week, 250_000), (five_hundred_workers, 600_000), (mnist, 80_000)]
)
def test_page_stays_small(run: object, limit: int) -> None:
    events = run()  # type: ignore[operator]
    assert len(render(events, summarize(History.of(events)))) < limit


def test_kills_joins_drains_and_restores_are_marked() -> None:
    chart = figures(page(mnist()))["Workers"]
    assert marks(chart, "lost") == [
        "elasticdl-mnist-worker-1 was preempted",
        "elasticdl-mnist-worker-3 ran out of memory",
        "elasticdl-mnist-ps-0 failed (exit code 1)",
    ]
    assert marks(chart, "left") == ["elasticdl-mnist-worker-2 gave its work back and left"]
    assert marks(chart, "note") == ["model back to version 200"]
    assert "6 joined, 1 drained, 2 lost, 1 PS lost, 1 restored" in words(chart)


def test_charts_of_time_share_one_axis() -> None:
    drawn = figures(page(mnist()))
    ticks = [
        [
            (t.get("x"), words(t))
            for t in drawn[name].iter("text")
            if (t.get("class"), t.get("text-anchor")) == ("tick", "middle")
        ]
        for name in ("Training loss", "Pace", "Workers")
    ]
    assert ticks[0] == ticks[1] == ticks[2]


def test_head_says_how_it_ended_and_why() -> None:
    header = words(page(failure()).find("body/main/header"))  # type: ignore[arg-type]
    assert "heart failed" in header
    assert "KeyError: 'thal'" in header
    assert "(600 of 3 000 records, 15 s)" in header


def test_a_failure_is_told_once_in_the_head() -> None:
    header = words(page(failure()).find("body/main/header"))  # type: ignore[arg-type]
    assert header.count("KeyError: 'thal'") == 1
    assert "1 was lost" in header


def test_head_of_a_running_job_does_not_speak_of_its_end() -> None:
    header = words(page(running()).find("body/main/header"))  # type: ignore[arg-type]
    assert "so far" in header
    assert "end" not in header


def test_epochs_and_losses_are_named_above_the_loss_and_losses_of_one_moment_together() -> None:
    named = notes(figures(page(mnist()))["Training loss"])
    assert {"epoch 1", "epoch 2", "worker-1 lost", "ps-0 lost", "worker-3 lost"} <= set(named)
    assert "2 pods lost" in notes(figures(page(allreduce()))["Training loss"])


def test_words_above_a_plot_rise_where_they_would_touch_and_lines_stay_where_they_find_no_room() -> None:
    crowd = [Note(5.0 + n / 10, f"something happened {n}") for n in range(9)]
    lines, named, above = annotate([crowd], elapsed(10), bottom=100, top=-20)
    rows = [ET.fromstring(text).get("y") for text in named]
    assert len(lines) == 9
    assert len(rows) == len(set(rows)) == 4
    assert above == 60


def test_loss_that_became_nan_is_marked_and_said() -> None:
    root = page(not_a_number())
    assert "The loss became NaN after 22 s" in words(root)
    assert "loss is NaN" in words(figures(root)["Training loss"])
    assert "0.610 → NaN" in words(figures(root)["accuracy"])


def test_loss_that_is_only_repeated_while_nothing_trains_is_not_drawn() -> None:
    losses = [*(1 / t for t in range(1, 41)), *[0.5] * 60]
    samples = [
        ev.Sample(time=float(t), records_done=t, version=min(t, 41), loss=loss)
        for t, loss in enumerate(losses, 1)
    ]
    chart = figures(page([ev.JobStarted(time=0.0, job="j"), *samples]))["Training loss"]
    (dot,) = [dot for dot in chart.iter("circle") if dot.get("class") == "dot"]
    assert dot.get("cx") == "41.00%"


def test_change_of_learning_rate_is_marked_and_a_schedule_is_drawn() -> None:
    assert "learning rate 0.01" in words(figures(page(mnist()))["Training loss"])
    schedule = [replace(e, learning_rate=1 / e.time) if isinstance(e, ev.Sample) else e for e in mnist()]
    assert "Learning rate" in figures(page(schedule))


def test_lack_of_memory_comes_with_the_option_that_helps() -> None:
    assert "raise the memory in --worker_resource_request" in words(page(mnist()))


def test_time_without_any_worker_is_said() -> None:
    events = [
        ev.JobStarted(time=0.0, job="j"),
        ev.PodRunning(time=10.0, pod="w", role="worker"),
        ev.PodEnded(time=20.0, pod="w", role="worker", cause="preempted"),
        ev.PodRunning(time=80.0, pod="v", role="worker"),
        ev.PodEnded(time=99.0, pod="v", role="worker", cause="completed"),
        ev.JobEnded(time=100.0, status="succeeded"),
    ]
    assert "For 1 min 01 s between" in words(page(events))


def test_sections_without_content_say_so() -> None:
    text = words(page([], facts=[]))
    assert "No evaluation was made." in text
    assert "No pod was started." in text
    assert "All settings have their defaults." in text


def test_only_settings_that_differ_from_their_default_are_shown() -> None:
    text = words(page([], facts=[Fact("kept", "1", "1"), Fact("changed", "2", "1")]))
    assert "changed" in text
    assert "kept" not in text


def test_best_of_each_metric_is_bold() -> None:
    bold = [words(cell) for cell in page(mnist()).iter("b")]
    assert {"0.9719", "0.09348"} <= set(bold)


def test_nothing_a_user_named_becomes_markup() -> None:
    events = [_hostile(event) for event in mnist()]
    root = page(events, facts=[Fact(HOSTILE, HOSTILE, HOSTILE + "x")])
    assert not list(root.iter("script"))
    assert "<script>alert(1)</script>\"'&\ufffd\ufffd<b>" in words(root)


@given(st.text(), st.text())
def test_any_text_is_well_formed_and_comes_back(inside: str, attribute: str) -> None:
    element = ET.fromstring(el("td", inside, title=attribute))
    harmless = re.fullmatch("[\t -~]*", inside)
    assert not harmless or (element.text or "") == inside


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_axes_hold_any_values(values: list[float]) -> None:
    for axis in (
        linear("y", values),
        linear("y", values, zero=True),
        loss("y", values),
        positions("x", values),
    ):
        assert len(axis.ticks) < 60
        assert axis.low < axis.high
        for value in values:
            if not math.isnan(value):
                assert 0 <= axis.at(value) <= 1


@pytest.mark.parametrize(
    ("seconds", "name", "labels"),
    [
        (10, "seconds since start", ["0", "2", "4", "6", "8", "10"]),
        (0.8, "seconds since start", ["0.0", "0.2", "0.4", "0.6", "0.8"]),
        (3600, "minutes since start", ["0", "10", "20", "30", "40", "50", "60"]),
        (2 * 86_400, "hours since start", ["0", "8", "16", "24", "32", "40", "48"]),
        (7 * 86_400, "days since start", ["0", "1", "2", "3", "4", "5", "6", "7"]),
    ],
)
def test_time_is_told_in_the_unit_that_suits_its_length(seconds: float, name: str, labels: list[str]) -> None:
    axis = elapsed(seconds)
    assert (axis.name, [label for _, label in axis.ticks]) == (name, labels)


def test_story_of_a_long_job_is_told_in_few_lines_without_losing_its_ends() -> None:
    lines = story(week())
    assert len(lines) <= 61
    assert lines[0].words.startswith("job criteo started")
    assert lines[-1].words == "job succeeded"
    assert any(re.fullmatch(r"\d+ workers preempted", line.words) for line in lines)


def test_story_of_a_short_job_names_each_pod() -> None:
    told = [line.words for line in story(mnist())]
    assert "elasticdl-mnist-worker-3 ran out of memory" in told
    assert "elasticdl-mnist-worker-4 started as a replacement after preemption" in told


def test_pod_table_in_markdown_says_how_each_pod_ended() -> None:
    table = pod_table_markdown(History.of(mnist())).splitlines()
    assert len(table) == 2 + 8
    assert table[2] == ("| ps-0 | failed (exit code 1): MemoryError: cannot allocate 40 MB | 0.2 s | 31 s |")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (("completed", 0, "exit code 0"), "finished its work"),
        (("error", 1, "exit code 1: KeyError"), "failed: exit code 1: KeyError"),
        (("error", 1, "KeyError"), "failed (exit code 1): KeyError"),
        (("preempted", 137, "killed by SIGKILL"), "was preempted: killed by SIGKILL"),
        (("of_the_future", None, ""), "of the future"),
    ],
)
def test_end_of_a_pod_is_told_without_saying_anything_twice(
    how: tuple[str, int | None, str], words: str
) -> None:
    assert end(*how) == words


def test_pod_table_in_markdown_is_cut_with_the_lost_pods_first() -> None:
    table = pod_table_markdown(History.of(five_hundred_workers()), limit=20).splitlines()
    assert len(table) == 2 + 20 + 2
    assert table[-1] == "680 more pods in the report."
    assert sum("completed" not in line and ("preempted" in line or "lost" in line) for line in table) == 12


def test_names_in_markdown_cannot_leave_their_cell() -> None:
    ended = ev.PodEnded(time=BEGIN, pod="a|b\nc<script>[x](y)", role="worker", cause="error", detail="x | y")
    table = pod_table_markdown(History.of([ended])).splitlines()
    assert len(table) == 3
    assert len(re.findall(r"(?<!\\)\|", table[2])) == 5
    assert "\\<script\\>" in table[2]


def _hostile(event: Event) -> Event:
    """The event with every name and text in it replaced."""
    known = {"role": "worker", "cause": "error"}
    texts = {f.name: known.get(f.name, HOSTILE) for f in fields(event) if f.type == "str"}
    if isinstance(event, ev.Evaluation):
        return replace(event, metrics={HOSTILE: 0.5})
    return replace(event, **texts)  # type: ignore[arg-type]
