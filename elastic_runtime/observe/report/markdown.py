"""The pod table in Markdown, for pipeline engines that show it beside a step.

KFP gives a table neither lines nor room between its columns, so columns that are flush right
come behind those that are flush left.
"""

from __future__ import annotations

import re

from elastic_runtime.observe import figures, words
from elastic_runtime.observe.history import History
from elastic_runtime.observe.report.tables import in_order, short


def pod_table_markdown(history: History, *, limit: int = 200) -> str:
    """Name, end, start and life of each pod; of more than `limit`, the lost ones go first."""
    pods = in_order(history.pods)
    if not pods:
        return "No pod was started.\n"
    if len(pods) > limit:
        pods = sorted(pods, key=lambda pod: not (pod.lost or pod.role != "worker"))[:limit]
    lines = ["| pod | what became of it | started after | lived |", "|---|---|---:|---:|"]
    end = history.begin + history.seconds
    for pod in pods:
        cells = (
            short(pod.name, history.job),
            words.fate(pod, job_over=history.ended is not None),
            figures.duration(pod.started - history.begin),
            figures.duration((end if pod.ended is None else pod.ended) - pod.started),
        )
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    if len(history.pods) > len(pods):
        lines += ["", f"{figures.plural(len(history.pods) - len(pods), 'more pod')} in the report."]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", " ".join(text.split()))
