"""The pages that are looked at, as the steps write them, and the ways in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from markdown_it import MarkdownIt  # which rich brings along

from elastic_runtime.observe.history import History
from elastic_runtime.observe.report import pod_table_markdown, render
from elastic_runtime.observe.summary import summarize, verdict
from elastic_runtime.steps import Folder
from elastic_runtime.steps.convert import convert
from elastic_runtime.steps.score_page import score_page
from elastic_runtime.steps.scores import Scores
from tests.unit.observe.made_up_runs import FACTS, RUNS

POLICY = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'"
"""As strict as what Argo's server sends along with an artifact."""

_VIEWER = """
:root { color-scheme: light dark; --soft: #f8f8f8; }
@media (prefers-color-scheme: dark) { :root { --soft: #202020; } }
body { margin: 0; padding: 16px; font: 14px/1.43 sans-serif; overflow-wrap: break-word; }
main { overflow-x: auto; }
h1, h2, h3 { font-size: 16px; }
code, pre { background: var(--soft); font-family: monospace; font-size: 13px; }
pre { padding: 7px; line-height: 1.2; }
"""

_COLUMNS = (
    "age,workclass,weight,education,marital_status,occupation,relationship,capital_gain,hours_per_week,label"
)
_TABLE = (
    f"{_COLUMNS}\n" + "39,State-gov,77516,Bachelors,Never-married,Adm-clerical,Not-in-family,2174,40,0\n" * 9
)


def training(run: str) -> str:
    """A job's report."""
    events = RUNS[run]()
    return render(events, summarize(History.of(events)), FACTS)


def evaluation(names: Sequence[str], *, skill: float = 3.0) -> str:
    """The report on a model that tells these classes apart, the better the more skill it has."""
    random, scores, records = np.random.default_rng(1), Scores(), 2000
    labels = random.integers(0, len(names), records)
    outputs = random.normal(0, 1, (records, len(names)))
    outputs[np.arange(records), labels] += skill
    scores.update(labels, outputs)
    metrics = {"loss": 0.2134, "accuracy": float((outputs.argmax(axis=1) == labels).mean())}
    return score_page(metrics, scores, names, records=records, model="runs/mnist/model", data="build/test")


def regression() -> str:
    """The report on a model that has no classes."""
    return score_page({"mse": 0.0213}, Scores(), [], records=506, model="m", data="d")


@cache
def samples(table: str = "") -> str:
    """The page on a dataset: this table, or pictures."""
    with TemporaryDirectory() as folder:
        source, page = Path(folder, "people.csv"), Folder(f"{folder}/samples")
        source.write_text(table)
        given = {"source": str(source)} if table else {"format": "mnist"}
        convert(dataset=Folder(f"{folder}/dataset"), samples=page, **given)  # type: ignore[arg-type]
        return markdown(Path(page.path).read_text(encoding="utf-8"))


def pods(run: str) -> str:
    """The pod table beside a training."""
    history = History.of(RUNS[run]())
    return markdown(f"{verdict(summarize(history))}\n\n{pod_table_markdown(history)}")


def markdown(text: str) -> str:
    """As KFP shows it: no HTML within, tables without any style, code on grey."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    head = f'<meta charset="utf-8"><title>Markdown</title><style>{_VIEWER}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body><main>{body}</main></body></html>'


def framed(page: str) -> str:
    """Inside a frame that may do nothing, on a page that permits nothing."""
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    style = (
        "<style>body { margin: 0 } iframe { border: 0; display: block; width: 100%; height: 100vh }</style>"
    )
    frame = f'<iframe sandbox srcdoc="{escape(page)}"></iframe>'
    return f"<!DOCTYPE html><html><head>{head}{style}</head><body>{frame}</body></html>"


PAGES: Mapping[str, Callable[[], str]] = {
    "ps_job": partial(training, "mnist"),
    "allreduce_job": partial(training, "allreduce"),
    "failed_job": partial(training, "failure"),
    "job_just_begun": partial(training, "begun"),
    "job_of_one_worker_and_three_points": partial(training, "three_points"),
    "job_of_fifty_workers_and_three_thousand_points": partial(training, "fifty_workers"),
    "job_of_a_week": partial(training, "week"),
    "job_of_extremes": partial(training, "extremes"),
    "diverged_job": partial(training, "not_a_number"),
    "evaluation": partial(evaluation, "0123456789"),
    "evaluation_of_two_classes": partial(evaluation, ("no heart disease", "heart disease"), skill=1.0),
    "evaluation_of_many_classes": partial(evaluation, [f"species {n}" for n in range(25)]),
    "evaluation_of_a_model_that_guesses": partial(evaluation, ("cat", "dog", "guinea pig"), skill=-2.0),
    "evaluation_without_classes": regression,
    "samples": samples,
    "samples_of_a_table": partial(samples, _TABLE),
    "pods": partial(pods, "mnist"),
    "pods_of_a_failed_job": partial(pods, "failure"),
}
