"""The report of an evaluation: one page of HTML that needs nothing else, drawn like that of a job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from elastic_runtime.observe import figures
from elastic_runtime.observe.report import document
from elastic_runtime.observe.report.charts import Plot, draw
from elastic_runtime.observe.report.curves import figure
from elastic_runtime.observe.report.markup import Markup, el
from elastic_runtime.observe.report.scales import Axis
from elastic_runtime.steps.scores import Array, RocPoint, Scores, area_under

_STYLE = """
.square figure { max-width: 466px; }
.confusion { width: auto; margin-top: 14px; }
.confusion th, .confusion td {
  text-align: right; vertical-align: middle; padding: 5px 8px; border: 0; white-space: nowrap;
}
.confusion td { min-width: 40px; border-radius: 4px; }
.confusion thead th { vertical-align: bottom; }
.confusion thead :first-child { width: 4em; white-space: normal; }
.confusion .long { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; padding: 8px 5px; }
.confusion :first-child { position: sticky; left: 0; background: var(--paper); overflow-wrap: normal; }
.confusion .right { background: color-mix(in srgb, var(--green) calc(var(--share) * 50%), var(--paper)); }
.confusion .wrong { background: color-mix(in srgb, var(--red) calc(var(--share) * 50%), var(--paper)); }
@media (max-width: 600px) {
  .confusion { font-size: 12px; }
  .confusion thead th { font-size: 12px; }
  .confusion th, .confusion td { padding: 4px 3px; }
  .confusion td { min-width: 28px; }
}
"""
_MOST_DRAWN, _MOST_LETTERS = 25, 40


def score_page(
    metrics: Mapping[str, float],
    scores: Scores,
    names: Sequence[str],
    *,
    records: int,
    model: str,
    data: str,
) -> str:
    """The whole page."""
    tiles = [(figures.figure(value, 4), name) for name, value in metrics.items()]
    tiles.append((figures.count(records), "records"))
    head = el(
        "header",
        el("p", "ElasticDL evaluation report", class_="overline"),
        el("h1", "Evaluation"),
        el("p", f"The model {model} on {data}", class_="aside"),
        el(
            "div",
            *(el("div", el("b", value), el("span", name), class_="tile") for value, name in tiles),
            class_="tiles",
        ),
    )
    sections = [head]
    if scores.obstacle:
        said = f"There is neither confusion matrix nor ROC curve: {scores.obstacle}."
        sections.append(el("section", el("p", said, class_="aside")))
    elif scores.confusion is not None:
        sections += [
            _section("ROC curve", _roc(scores.roc(), names)),
            _section("Confusion matrix", _confusion(scores.confusion, names)),
            _section("Classes", _classes(scores.confusion, names)),
        ]
    return document("Evaluation - ElasticDL", sections, style=_STYLE)


def _section(name: str, inside: Markup) -> Markup:
    return el("section", el("h2", name), inside)


def _roc(points: list[RocPoint], names: Sequence[str]) -> Markup:
    if not points:
        return el("p", "There are records of one class only.", class_="aside")
    curve = [(point.false_positive_rate, point.recall) for point in points]
    area = figures.figure(area_under(points), 4)
    plot = Plot(_shares("false positives, share of the others"), _shares("true positives, share"), 320)
    layers = [
        plot.line([(0, 0), (1, 1)], class_="line wanted"),
        el("text", "guessing", x="55%", y=plot.top(0.5), dx=6, class_="label quiet"),
        plot.line(curve, class_="line"),
    ]
    of = f"{names[1]} against {names[0]}" if len(names) == 2 else "each class against the others, together"
    chart = draw(plot, layers, title="ROC curve", summary=f"area {area}")
    return el("div", figure(f"Area {area}", of, chart), class_="square")


def _shares(name: str) -> Axis:
    return Axis(name, 0.0, 1.0, tuple((n / 5, f"{n / 5:g}") for n in range(6)))


def _confusion(matrix: Array, names: Sequence[str]) -> Markup:
    if len(names) > _MOST_DRAWN:
        return el("p", f"With {len(names)} classes it is in the step's output only.", class_="aside")
    class_ = "long" if sum(map(len, names)) > _MOST_LETTERS else None
    columns = (el("th", name, scope="col", class_=class_) for name in names)
    head = el("tr", el("th", "true \\ taken\xa0for"), *columns)
    rows = [
        el("tr", el("th", name, scope="row"), *(_cell(matrix, row, column) for column in range(len(names))))
        for row, name in enumerate(names)
    ]
    said = "Rows are classes, columns what their records were taken for: the more, the stronger the colour."
    table = _table("Confusion matrix", head, rows, class_="confusion")
    return el("div", el("p", said, class_="aside"), table)


def _cell(matrix: Array, row: int, column: int) -> Markup:
    """The stronger coloured, the larger its share of the records of its class; mistakes more so."""
    count, total = int(matrix[row, column]), int(matrix[row].sum())
    share = count / total if total else 0.0
    kind = "right" if row == column else "wrong"
    style = f"--share: {share if kind == 'right' else math.sqrt(share):.3f}" if count else None
    return el(
        "td", figures.count(count) if count else "·", class_=kind, style=style, title=figures.percent(share)
    )


def _classes(matrix: Array, names: Sequence[str]) -> Markup:
    head = el(
        "tr",
        *(
            el("th", name, scope="col", class_="number" if at else None)
            for at, name in enumerate(("class", "records", "found (recall)", "right (precision)"))
        ),
    )
    rows = [
        el(
            "tr",
            el("th", name, scope="row"),
            el("td", figures.count(int(matrix[n].sum())), class_="number"),
            el("td", _share(int(matrix[n, n]), int(matrix[n].sum())), class_="number"),
            el("td", _share(int(matrix[n, n]), int(matrix[:, n].sum())), class_="number"),
        )
        for n, name in enumerate(names)
    ]
    return _table("Classes", head, rows, class_="fit")


def _table(caption: str, head: Markup, rows: Sequence[Markup], *, class_: str) -> Markup:
    parts = [el("caption", caption), el("thead", head), el("tbody", *rows)]
    inside = el("table", *parts, class_=class_)
    return el("div", inside, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _share(part: int, of: int) -> str:
    return f"{100 * part / of:.1f} %" if of else "-"
