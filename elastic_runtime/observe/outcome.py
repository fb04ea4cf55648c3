"""What a job leaves in its run folder for people and scripts: `summary.json` and `report.html`.

Both are made from `events.jsonl` alone, so they can be written while the job runs, at its end, and by anyone
after the death of its master.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elastic_runtime.observe import events
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.observe.history import History
from elastic_runtime.observe.report import Fact, render
from elastic_runtime.observe.summary import FILE_NAME, Summary, summarize, write_summary

REPORT_NAME = "report.html"


def write_outcome(folder: Path, *, model: str = "", facts: Sequence[Fact] = ()) -> Summary:
    """Write summary and report of the job in `folder` as it stands, and return the summary.

    `model` is where the model was exported to, `facts` are the settings of the job.
    """
    story = events.read_events(folder / events.FILE_NAME)
    summary = summarize(History.of(story), model=model)
    write_summary(summary, folder / FILE_NAME)
    page = render(story, summary, facts)
    write_atomically(folder / REPORT_NAME, page, durable=summary.status != "running")
    return summary
