"""Which charts a report has: loss, pace and workers over one and the same time, and metrics over versions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from elastic_runtime.observe import figures, words
from elastic_runtime.observe.events import Sample
from elastic_runtime.observe.history import History, PodLife
from elastic_runtime.observe.report import scales
from elastic_runtime.observe.report.charts import Mark, Plot, Row, draw, together
from elastic_runtime.observe.report.markup import Markup, el, join
from elastic_runtime.observe.report.notes import Note
from elastic_runtime.observe.report.tables import short
from elastic_runtime.observe.thinning import Point

_FEW, _FEW_RATES, _FEW_DOTS, _NOISY = 12, 5, 30, 30
_MANY_EPOCHS, _LONG_NAME = 4, 30


def over_time(history: History) -> Markup:
    """Loss, learning rate if it changes often, records a second and workers, one below the other."""
    time = scales.elapsed(history.seconds)
    charts = (_loss, _learning_rate, _pace, _workers)
    return join(chart(history, time) for chart in charts)


def over_versions(history: History, *, limit: int = 8) -> Markup:
    """One small chart for each metric that was evaluated more than once."""
    evaluated = Counter(name for e in history.evaluations for name in e.metrics)
    names = [name for name, times in evaluated.items() if times > 1]
    charts = join(_metric(history, name) for name in names[:limit])
    rest = names[limit:]
    more = el("p", "Not drawn, but in the table: " + ", ".join(rest), class_="aside") if rest else ""
    return join([el("div", charts, class_="pair"), more]) if names else Markup()


def figure(heading: str, reading: str, chart: str) -> Markup:
    """A chart below its heading and what is to be read from it."""
    caption = el("figcaption", el("h3", heading), el("span", reading))
    return el("figure", caption, chart)


def change(values: Sequence[float]) -> str:
    """From the first finite value to the last value."""
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return "never a number"
    first, last = figures.figure(finite[0]), figures.figure(values[-1])
    return first if len(values) == 1 else f"{first} → {last}"


def smooth(points: Sequence[Point], seconds: float) -> list[Point]:
    """The curve's mean over about so long to either side; it breaks where the curve does."""
    forth = _trailing_mean(points, seconds)
    back = _trailing_mean([(-x, y) for x, y in reversed(points)], seconds)
    return [(x, (before + after) / 2) for (x, before), (_, after) in zip(forth, reversed(back), strict=True)]


def _trailing_mean(points: Iterable[Point], seconds: float) -> list[Point]:
    mean, previous, means = math.nan, 0.0, []
    for x, y in points:
        if math.isfinite(y) and math.isfinite(mean):
            mean += (y - mean) * (1 - math.exp((previous - x) / seconds))
        else:
            mean = y
        means.append((x, mean))
        previous = x
    return means


def _curve(history: History, value: Callable[[Sample], float | None]) -> list[Point]:
    samples = sorted(history.samples, key=lambda sample: sample.time)
    found = [(s.time - history.begin, value(s)) for s in samples]
    return [(x, y) for x, y in found if y is not None]


def _noisy(plot: Plot, points: Sequence[Point], seconds: float, class_: str) -> tuple[list[Markup], Point]:
    """A curve of many points faintly as it is and boldly smoothed; and the end of what is bold."""
    if len(points) <= _NOISY or seconds <= 0:
        return [plot.line(points, class_=class_)], points[-1]
    smoothed = smooth(points, seconds * max(1 / 100, 2 / len(points)))
    return [plot.line(points, class_=f"{class_} faint"), plot.line(smoothed, class_=class_)], smoothed[-1]


def _loss(history: History, time: scales.Axis) -> Markup:
    points = _reported_losses(history)
    if not points:
        return Markup()
    plot = Plot(time, scales.loss("loss", [y for _, y in points]), 190)
    curve, (x, y) = _noisy(plot, points, history.seconds, "line")
    changes = _rate_changes(history)
    rates = [Note(x, f"learning rate {rate:.3g}", "rate") for x, rate in changes]
    happened = [*_not_a_number(points, "loss"), *_losses(history, time)]
    happened += rates if len(changes) <= _FEW_RATES else []
    reading = change([*(y for _, y in points[:1]), y])
    aside = "; faint: as reported, bold: smoothed" if len(curve) > 1 else ""
    layers, notes = [*curve, *plot.end_label(x, y)], [_epochs(history), happened]
    drawn = draw(plot, layers, title="Training loss over time", summary=f"Loss {reading}", notes=notes)
    return figure("Training loss", reading + aside, drawn)


def _reported_losses(history: History) -> list[Point]:
    """The loss where there was a new one; a sample taken meanwhile repeats that of the last report."""
    points, last = [], ""
    for sample in sorted(history.samples, key=lambda sample: sample.time):
        report = f"{sample.version} {sample.loss}"
        if sample.loss is not None and report != last:
            points.append((sample.time - history.begin, sample.loss))
        last = report
    return points


def _not_a_number(points: Sequence[Point], name: str) -> list[Note]:
    bad = [point for point in points if not math.isfinite(point[1])][:1]
    return [Note(x, f"{name} is {figures.figure(y)}", "bad") for x, y in bad]


def _epochs(history: History) -> list[Note]:
    """The name of each epoch over its time, and lines where the next begins."""
    ends = sorted(history.finished_epochs, key=lambda end: end.time)
    if max(len(ends), history.epochs) < 2 or len(ends) > _FEW:
        return []
    spans = [(end.epoch, end.time - history.begin) for end in ends]
    if history.status != "succeeded" and len({epoch for epoch, _ in spans}) < history.epochs:
        spans.append((spans[-1][0] + 1 if spans else 1, history.seconds))
    notes, begin = [], 0.0
    for number, (epoch, end) in enumerate(spans):
        name = f"epoch {epoch}" if number == 0 or len(spans) < _MANY_EPOCHS else f"{epoch}"
        notes += [Note(begin, "", "epoch")] * (begin > 0)
        notes.append(Note((begin + end) / 2, name, "epoch", line=False))
        begin = end
    return notes


def _losses(history: History, time: scales.Axis) -> list[Note]:
    """Pods that were lost, those of one moment together; nothing if it happened all the time."""
    lost = [(pod.ended - history.begin, pod) for pod in history.pods if pod.lost and pod.ended is not None]
    groups = together(lost, lambda loss: time.at(loss[0]), 1 / 100) if len(lost) <= _FEW else []
    return [
        Note(x, f"{short(pod.name, history.job) if not more else f'{len(more) + 1} pods'} lost", "lost")
        for (x, pod), *more in groups
    ]


def _loss_lines(history: History, plot: Plot) -> list[Markup]:
    return [plot.rule(note.x, class_="note lost") for note in _losses(history, plot.x)]


def _rate_changes(history: History) -> list[Point]:
    rates = _curve(history, lambda sample: sample.learning_rate)
    return [after for before, after in pairwise(rates) if after[1] != before[1]]


def _learning_rate(history: History, time: scales.Axis) -> Markup:
    points = _curve(history, lambda sample: sample.learning_rate)
    if len(_rate_changes(history)) <= _FEW_RATES:
        return Markup()
    plot = Plot(time, scales.linear("learning rate", [y for _, y in points], zero=True), 80)
    reading = change([y for _, y in points])
    layers = [plot.line(points, class_="line second"), *plot.end_label(*points[-1])]
    drawn = draw(plot, layers, title="Learning rate over time", summary=f"Learning rate {reading}")
    return figure("Learning rate", reading, drawn)


def _pace(history: History, time: scales.Axis) -> Markup:
    points = _curve(history, lambda sample: sample.records_per_second)
    if not points:
        return Markup()
    plot = Plot(time, scales.linear("records/s", [y for _, y in points], zero=True), 90)
    curve, _ = _noisy(plot, points, history.seconds, "line second")
    mean = history.records_done / history.seconds if history.seconds > 0 else 0.0
    best = max(y for _, y in points)
    reading = f"{figures.figure(mean)} records/s on average, {figures.figure(best)} at best"
    layers = [*_loss_lines(history, plot), *curve]
    drawn = draw(plot, layers, title="Records a second over time", summary=reading)
    return figure("Pace", reading, drawn)


def _workers(history: History, time: scales.Axis) -> Markup:
    steps = [(t - history.begin, float(n)) for t, n in history.worker_steps()]
    running: list[Point] = [(0.0, 0.0), *steps]
    wanted = [(x, y) for x, y in _curve(history, lambda sample: float(sample.workers_wanted)) if y > 0]
    together = _together(history)
    if not steps and not wanted:
        return Markup()
    plot = Plot(
        time, scales.linear("workers", [y for _, y in [*running, *wanted]], zero=True, whole=True), 110
    )
    layers = [
        *_loss_lines(history, plot),
        plot.steps(running, class_="area", filled=True),
        plot.steps(running, class_="line workers"),
        plot.steps(wanted, class_="line wanted"),
        plot.steps(together, class_="line together"),
    ]
    late = [y for x, y in running if x <= 0.95 * time.high][-1]
    names = [(f"{late:.0f} running", late, "label running")] if late else []
    names += [(f"{y:.0f} wanted", y, "label quiet") for _, y in wanted[-1:]]
    names += [(f"{y:.0f} together", y, "label together") for _, y in together[-1:]]
    layers.append(plot.side_labels(names))
    rows = _rows(history)
    reading = ", ".join(
        [f"{max(y for _, y in running):.0f} at most", *(f"{len(r.marks)} {r.name}" for r in rows)]
    )
    drawn = draw(plot, layers, title="Workers over time", summary=f"Workers: {reading}", rows=rows)
    return figure("Workers", reading, drawn)


def _together(history: History) -> list[Point]:
    """How many train together (AllReduce): a worker that runs may still be on its way into the world."""
    worlds = [(event.time - history.begin, float(event.workers)) for event in history.worlds]
    return [(0.0, 0.0), *worlds, (history.seconds, worlds[-1][1])] if worlds else []


def _rows(history: History) -> list[Row]:
    begin, workers = history.begin, history.workers
    servers = [pod for pod in history.pods if pod.role == "ps"]
    back = [(e.time, f"model back to version {e.version}") for e in history.restores]
    masters = [(time, "a new master took over") for time in history.restarts]
    rows = [
        Row(
            "joined",
            [Mark(p.running - begin, "joined", f"{p.name} runs") for p in workers if p.running is not None],
        ),
        Row("drained", [_end(p, begin, "left") for p in workers if p.cause == "drained"]),
        Row("lost", [_end(p, begin, "lost") for p in workers if p.lost]),
        Row("PS lost", [_end(p, begin, "lost") for p in servers if p.lost]),
        Row("restored", [Mark(time - begin, "note", title) for time, title in back]),
        Row("restarted", [Mark(time - begin, "note", title) for time, title in masters]),
    ]
    return [row for row in rows if row.marks]


def _end(pod: PodLife, begin: float, shape: str) -> Mark:
    return Mark((pod.ended or begin) - begin, shape, f"{pod.name} {words.end(pod.cause, pod.exit_code)}")


def _metric(history: History, name: str) -> Markup:
    points = sorted((float(e.version), e.metrics[name]) for e in history.evaluations if name in e.metrics)
    versions, values = [x for x, _ in points], [y for _, y in points]
    short_name = name if len(name) <= _LONG_NAME else f"{name[: _LONG_NAME - 1]}…"
    plot = Plot(scales.positions("model version", versions), scales.linear(short_name, values), 140)
    layers = [plot.line(points, class_="line")]
    if len(points) <= _FEW_DOTS:
        layers += [plot.dot(x, y, class_="dot small") for x, y in points if math.isfinite(y)]
    layers += plot.end_label(*points[-1])
    reading, notes = change(values), [_not_a_number(points, name)]
    title = f"{name} over model versions"
    drawn = draw(plot, layers, title=title, summary=f"{name} {reading}", notes=notes)
    return figure(name, reading, drawn)
