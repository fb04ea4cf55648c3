"""The report of a job: one page of HTML that needs nothing else, for a browser, KFP's frame or Argo's policy.

No script, no picture, no request: only markup and one style sheet inside it. It is written while the job runs
and once more at its end, from the events alone, so a job that failed has its report too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from elastic_runtime.observe import figures, words
from elastic_runtime.observe.events import Event
from elastic_runtime.observe.history import History
from elastic_runtime.observe.report import curves, tables
from elastic_runtime.observe.report.happenings import story
from elastic_runtime.observe.report.markup import Markup, el, join
from elastic_runtime.observe.summary import Summary, verdict

_STATUS = {"succeeded": "good", "failed": "bad", "stopped": "warn"}


def render(events: Sequence[Event], summary: Summary, facts: Sequence[tables.Fact] = ()) -> str:
    """The whole page."""
    history = History.of(events)
    sections = [
        _head(history, summary),
        _section("Training", curves.over_time(history), empty="Nothing was trained yet."),
        _section("Evaluation", _evaluation(history), empty="No evaluation was made."),
        _section("Pods", tables.pod_table(history) if history.pods else "", empty="No pod was started."),
        _section(
            "What happened",
            tables.story_table(story(events), history) if events else "",
            empty="Nothing yet.",
        ),
        _section("Settings", tables.fact_table(facts), empty="All settings have their defaults."),
        _section("Where it ran", _place(summary)),
    ]
    return document(f"{summary.job} {summary.status} - ElasticDL", sections)


def document(title: str, sections: Sequence[Markup], *, style: str = "") -> str:
    """A page of HTML of these sections, with the report's style sheet in it; `style` comes after that."""
    head = el(
        "head",
        Markup('<meta charset="utf-8" />'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1" />'),
        Markup('<meta name="color-scheme" content="light dark" />'),
        el("title", title),
        el("style", Markup(_style() + style)),
    )
    page = el("html", head, el("body", el("main", *sections)), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _head(history: History, summary: Summary) -> Markup:
    status = el("span", summary.status, class_=f"status {_STATUS.get(summary.status, 'busy')}")
    when = f"started {figures.moment(summary.started)}" if summary.started else "not started"
    return el(
        "header",
        el("p", "ElasticDL training report", class_="overline"),
        el("h1", summary.job or "unnamed job", " ", status),
        el("p", f"{summary.strategy or 'Training'}, {when}", class_="aside"),
        el("p", verdict(summary), class_="error") if summary.error else "",
        el("div", *(_tile(*tile) for tile in _tiles(history, summary)), class_="tiles"),
        el("ul", *(el("li", remark) for remark in remarks(history, summary)), class_="remarks"),
        el("p", verdict(summary), class_="verdict") if not summary.error else "",
    )


def _tiles(history: History, summary: Summary) -> list[tuple[str, str, str]]:
    """Eight key figures, each with its name and a remark."""
    metrics = [
        (figures.figure(v), name, "last evaluation") for name, v in list(summary.final_metrics.items())[:2]
    ]
    records = f"of {figures.large(summary.records)}" if summary.records > summary.records_done else ""
    epochs = f"{summary.epochs_done} of {figures.plural(summary.epochs, 'epoch')}" if summary.epochs else ""
    pace = summary.records_done / summary.wall_seconds if summary.wall_seconds > 0 else 0.0
    is_over, lost = history.ended is not None, sum(pod.lost for pod in history.pods)
    causes = ", ".join(f"{n} after {words.cause(name)}" for name, n in summary.relaunches.items())
    saved = summary.last_checkpoint
    others = [
        (figures.large(summary.records_done), "records done", records or epochs),
        (figures.duration(summary.wall_seconds), "wall time", "from start to end" if is_over else "so far"),
        (figures.figure(pace), "records/s", "over the wall time"),
        (figures.percent(summary.goodput), "goodput", "of the time, in work that counts"),
        (
            figures.count(sum(summary.relaunches.values())),
            "pods relaunched",
            causes or f"{lost or 'none'} {'were' if lost > 1 else 'was'} lost",
        ),
        (figures.large(summary.records_retrained), "records trained again", "after losses"),
        (
            figures.count(summary.checkpoints),
            "checkpoints",
            f"last at version {saved}" if saved is not None else "",
        ),
        (figures.count(summary.version), "model version", "at the end" if is_over else "now"),
    ]
    return [*metrics, *others][:8]


def _tile(value: str, name: str, remark: str) -> Markup:
    return el("div", el("b", value), el("span", name), el("small", remark), class_="tile")


def remarks(history: History, summary: Summary) -> list[str]:
    """What the reader should not have to find out alone."""
    found = []
    bad = next((s for s in history.samples if s.loss is not None and not math.isfinite(s.loss)), None)
    if bad and bad.loss is not None:
        after = figures.duration(bad.time - history.begin)
        found.append(f"The loss became {figures.figure(bad.loss)} after {after}, at version {bad.version}.")
    starved = [pod for pod in history.pods if pod.cause == "out_of_memory"]
    if starved:
        roles = " and ".join(sorted({f"--{pod.role}_resource_request" for pod in starved}))
        found.append(f"{figures.plural(len(starved), 'pod')} ran out of memory: raise the memory in {roles}.")
    alone = _seconds_without_workers(history)
    if alone > max(5.0, history.seconds / 20):
        found.append(
            f"For {figures.duration(alone)} between the first worker's start and the end none was running."
        )
    if summary.model:
        found.append(f"The model is in {summary.model}.")
    return found


def _seconds_without_workers(history: History) -> float:
    steps = history.worker_steps()
    ends = [time for time, _ in steps[1:]] + [history.begin + history.seconds]
    return sum(
        max(0.0, end - begin) for (begin, running), end in zip(steps, ends, strict=False) if running == 0
    )


def _evaluation(history: History) -> Markup:
    return join([curves.over_versions(history), tables.evaluation_table(history.evaluations, history.begin)])


def _place(summary: Summary) -> Markup:
    facts = {name: str(value) for name, value in summary.machine.items()}
    if isinstance(memory := summary.machine.get("memory"), int):
        facts["memory"] = figures.size(memory)
    return tables.pairs({**summary.versions, **facts})


def _section(name: str, inside: str, *, empty: str = "") -> Markup:
    return el("section", el("h2", name), inside or el("p", empty, class_="aside"))


@cache
def _style() -> str:
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")
