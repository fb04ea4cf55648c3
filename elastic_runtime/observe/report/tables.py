"""The tables of the report: pods with their lives drawn, evaluations, what happened, settings, versions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from elastic_runtime.observe import figures, words
from elastic_runtime.observe.events import Evaluation
from elastic_runtime.observe.history import History, PodLife
from elastic_runtime.observe.report import scales
from elastic_runtime.observe.report.charts import Mark, glyph
from elastic_runtime.observe.report.happenings import Line
from elastic_runtime.observe.report.markup import Markup, el, join, percent

_SHOWN, _MOST = 16, 1000
_ROLE_ORDER = {"master": 0, "ps": 1, "worker": 2}


@dataclass(frozen=True, slots=True)
class Fact:
    """A setting of the job: its name, its value and what it is by default, as text."""

    name: str
    value: str
    default: str = ""


def short(name: str, job: str) -> str:
    """A pod's name without what all pods of the job have in common."""
    return name.removeprefix(f"elasticdl-{job}-")


def in_order(pods: Iterable[PodLife]) -> list[PodLife]:
    """Servers before workers, each in the order of their start."""
    return sorted(pods, key=lambda p: (_ROLE_ORDER.get(p.role, 3), p.started, p.index, p.name))


def pod_table(history: History) -> Markup:
    """Every pod with its life drawn over the job's time; of many, the lost ones and the rest on demand."""
    pods = in_order(history.pods)
    if len(pods) <= _SHOWN:
        return _pods(pods, history)
    notable = [pod for pod in pods if pod.lost or pod.role != "worker"][:_SHOWN] or pods[:_SHOWN]
    rest = [pod for pod in pods if pod not in notable][: _MOST - len(notable)]
    named = f"The other {figures.plural(len(rest), 'pod')}"
    left = len(pods) - len(notable) - len(rest)
    more = el("p", f"{figures.plural(left, 'more pod')} in events.jsonl.", class_="aside") if left else ""
    return join([_census(pods), _pods(notable, history), _fold(named, join([_pods(rest, history), more]))])


def evaluation_table(evaluations: Sequence[Evaluation], begin: float) -> Markup:
    """The figures of every evaluated version, the best of each metric in bold."""
    if not evaluations:
        return Markup()
    ordered = sorted(evaluations, key=lambda e: e.version)
    names = list(dict.fromkeys(name for e in ordered for name in e.metrics))
    best = {name: _best(name, [e.metrics[name] for e in ordered if name in e.metrics]) for name in names}
    step = math.ceil(len(ordered) / _MOST)
    rows = [
        el(
            "tr",
            el("td", figures.count(e.version), class_="number"),
            el("td", figures.duration(e.time - begin), class_="number"),
            *(_metric_cell(e.metrics.get(name), best[name]) for name in names),
        )
        for e in reversed(ordered[::-1][::step])
    ]
    head = ["version", "after", *names]
    table = _table("Evaluations", head, rows, numbers=range(len(head)), class_="fit")
    return (
        table
        if len(rows) <= 12
        else _fold(f"All {figures.plural(len(rows), 'evaluation')} in figures", table)
    )


def story_table(lines: Sequence[Line], history: History) -> Markup:
    """What happened, with the time since the job's start."""
    prefix = f"elasticdl-{history.job}-"
    rows = [
        el(
            "tr",
            el("td", figures.duration(line.time - history.begin), class_="number"),
            el("td", line.words.replace(prefix, ""), class_=line.tone or None),
        )
        for line in lines
    ]
    return _table("What happened", ["after", "what"], rows, numbers=(0,))


def fact_table(facts: Sequence[Fact]) -> Markup:
    """The settings that differ from their defaults."""
    rows = [
        el(
            "tr",
            el("th", el("code", fact.name), scope="row"),
            el("td", el("code", fact.value)),
            el("td", el("code", fact.default) if fact.default else "none", class_="quiet"),
        )
        for fact in facts
        if fact.value != fact.default
    ]
    return _table("Settings", ["setting", "value", "default"], rows) if rows else Markup()


def pairs(values: Mapping[str, str]) -> Markup:
    """Names and what they stand for, side by side."""
    return el(
        "dl", *(el("div", el("dt", name), el("dd", value)) for name, value in values.items()), class_="pairs"
    )


def _census(pods: Sequence[PodLife]) -> Markup:
    roles: dict[str, Counter[str]] = {}
    for pod in pods:
        state = words.state(pod.cause if pod.state == "ended" else pod.state)
        roles.setdefault(pod.role, Counter())[state] += 1
    parts = [
        f"{figures.plural(ends.total(), words.role(role))}: "
        + ", ".join(f"{n} {end}" for end, n in ends.most_common())
        for role, ends in roles.items()
    ]
    return el("p", "; ".join(parts) + ".", class_="aside")


def _pods(pods: Sequence[PodLife], history: History) -> Markup:
    rows = [_pod(pod, history) for pod in pods]
    return _table("Pods", ["pod", "life", "started", "lived", "what became of it"], rows, numbers=(2, 3))


def _pod(pod: PodLife, history: History) -> Markup:
    lived = (history.begin + history.seconds if pod.ended is None else pod.ended) - pod.started
    tone = "bad" if pod.lost else "good" if pod.cause in {"completed", "drained"} else None
    because = f"replacement after {words.cause(pod.because)}" if pod.because else ""
    name, role = short(pod.name, history.job), words.role(pod.role)
    in_full = el("small", role) if role not in name else ""
    return el(
        "tr",
        el("th", name, in_full, scope="row", title=pod.name),
        el("td", _life(pod, history), class_="life"),
        el("td", figures.duration(pod.started - history.begin), class_="number wide"),
        el("td", figures.duration(lived), class_="number wide"),
        el(
            "td",
            el("span", words.fate(pod, job_over=history.ended is not None), class_=tone),
            el("small", because) if because else "",
        ),
    )


def _life(pod: PodLife, history: History) -> Markup:
    end = history.seconds
    x = scales.Axis("", 0.0, max(end, 0.001), ())
    start = pod.started - history.begin
    until = end if pod.ended is None else pod.ended - history.begin
    runs = until if pod.running is None else max(start, pod.running - history.begin)
    bars = [_bar(x, start, runs, "pending"), _bar(x, runs, until, "running")]
    if pod.ended is not None:
        shape = "lost" if pod.lost else "left" if pod.cause == "drained" else ""
        if shape:
            bars.append(
                glyph([Mark(until, shape, words.fate(pod, job_over=history.ended is not None))], x, 8)
            )
    return el("svg", *bars, class_="bar", height=16, aria_hidden="true")


def _bar(x: scales.Axis, begin: float, end: float, class_: str) -> Markup:
    width = x.at(end) - x.at(begin)
    if width <= 0:
        return Markup()
    return el("rect", x=percent(x.at(begin)), width=percent(width), y=4, height=8, rx=2, class_=class_)


def _metric_cell(value: float | None, best: float | None) -> Markup:
    words = "" if value is None else figures.figure(value, 4)
    return el("td", el("b", words) if value is not None and value == best else words, class_="number")


def _best(name: str, values: Sequence[float]) -> float | None:
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < 2:
        return None
    low_is_good = any(part in name.lower() for part in ("loss", "error", "mse", "mae", "entropy"))
    return min(finite) if low_is_good else max(finite)


def _table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Markup],
    *,
    numbers: Iterable[int] = (),
    class_: str | None = None,
) -> Markup:
    numeric, wide = set(numbers), {"started", "lived"}
    classes = [
        " ".join(["number"] * (i in numeric) + ["wide"] * (name in wide)) for i, name in enumerate(head)
    ]
    cells = [el("th", name, scope="col", class_=c or None) for name, c in zip(head, classes, strict=True)]
    parts = [el("caption", caption), el("thead", el("tr", *cells)), el("tbody", *rows)]
    table = el("table", *parts, class_=class_)
    return el("div", table, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _fold(name: str, inside: Markup) -> Markup:
    return el("details", el("summary", name), inside)
