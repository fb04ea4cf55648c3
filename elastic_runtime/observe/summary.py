"""The end of a job in one object: `summary.json` for scripts, and the verdict, the last line of its log.

It is written all along with the status `running`, so one that still says so when nothing runs tells that the
master vanished. A figure that is not a number is `null` in the file.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe import figures, machine, words
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.observe.history import History
from elastic_runtime.observe.progress import goodput

FILE_NAME = "summary.json"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The figures of one version."""

    version: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A job as its owner wants to know it; `status` is `running`, `succeeded`, `failed` or `stopped`."""

    job: str
    status: str
    strategy: str = ""
    epochs: int = 0
    epochs_done: int = 0
    records: int = 0
    records_done: int = 0
    records_retrained: int = 0
    relaunches: Mapping[str, int] = field(default_factory=dict)
    workers_relaunched: int = 0
    evaluations: tuple[Evaluated, ...] = ()
    final_metrics: Mapping[str, float] = field(default_factory=dict)
    version: int = 0
    started: float = 0.0
    wall_seconds: float = 0.0
    goodput: float = 0.0
    checkpoints: int = 0
    last_checkpoint: int | None = None
    model: str = ""
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str | int] = field(default_factory=dict)


def summarize(history: History, *, model: str = "") -> Summary:
    """The summary of a history so far; `model` is where the model was exported to."""
    sample, last = history.last_sample, history.evaluations[-1:]
    relaunched = [pod for pod in history.pods if pod.because]
    return Summary(
        job=history.job,
        status=history.status,
        strategy=history.strategy,
        epochs=history.epochs,
        epochs_done=len({e.epoch for e in history.finished_epochs}),
        records=history.records_total,
        records_done=history.records_done,
        records_retrained=history.records_retrained,
        relaunches=dict(history.relaunches),
        workers_relaunched=sum(pod.role == "worker" for pod in relaunched),
        evaluations=tuple(Evaluated(e.version, e.metrics) for e in history.evaluations),
        final_metrics=last[0].metrics if last else {},
        version=sample.version if sample else 0,
        started=history.begin,
        wall_seconds=round(history.seconds, 3),
        goodput=round(
            goodput(
                training_seconds=sample.training_seconds if sample else 0.0,
                wall_seconds=history.seconds,
                done=history.records_done,
                retrained=history.records_retrained,
            ),
            4,
        ),
        checkpoints=len(history.checkpoints),
        last_checkpoint=history.checkpoints[-1].version if history.checkpoints else None,
        model=model,
        error=" ".join(history.error.split()),
        versions=machine.versions(),
        machine=machine.facts(),
    )


def write_summary(summary: Summary, path: Path) -> None:
    """Write `summary.json`, whole or not at all."""
    values = _plain(dataclasses.asdict(summary))
    text = json.dumps(values, indent=2, allow_nan=False)
    write_atomically(path, f"{text}\n", durable=summary.status != "running")


def read_summary(path: Path) -> Summary:
    """Read a `summary.json`; keys of a newer version are passed over."""
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = {f.name for f in dataclasses.fields(Summary)}
        values = {name: value for name, value in raw.items() if name in known}
        values["evaluations"] = tuple(
            Evaluated(e["version"], _floats(e["metrics"])) for e in raw["evaluations"]
        )
        values["final_metrics"] = _floats(raw["final_metrics"])
        return Summary(**values)
    except OSError as error:
        raise ElasticError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ElasticError("is not the summary of a job", where=str(path)) from error


def verdict(summary: Summary) -> str:
    """The job's end in one line, `job mnist succeeded: 12 000 records in 2 epochs, 41 s, accuracy 0.974`."""
    parts = [_work(summary), figures.duration(summary.wall_seconds)]
    parts += [words.metrics({name: v}) for name, v in list(summary.final_metrics.items())[:3]]
    others = sum(summary.relaunches.values()) - summary.workers_relaunched
    if summary.workers_relaunched:
        parts.append(f"{figures.plural(summary.workers_relaunched, 'worker')} relaunched")
    if others:
        parts.append(f"{figures.plural(others, 'other pod')} relaunched")
    if summary.records_retrained:
        parts.append(f"{figures.plural(summary.records_retrained, 'record')} trained again")
    if summary.status != "succeeded" and summary.last_checkpoint is not None:
        parts.append(f"last checkpoint at version {summary.last_checkpoint}")
    facts = ", ".join(part for part in parts if part)
    why = f": {summary.error}" if summary.error else ""
    return (
        f"job {summary.job} {summary.status}{why} ({facts})"
        if why
        else f"job {summary.job} {summary.status}: {facts}"
    )


def _work(summary: Summary) -> str:
    if not (summary.epochs or summary.records or summary.records_done):
        return ""  # a job that only evaluates
    epochs = figures.plural(summary.epochs, "epoch")
    ended_early = summary.records_done < summary.records  # enough was trained
    if (summary.status == "succeeded" and not ended_early) or not summary.records:
        return f"{figures.plural(summary.records_done, 'record')}" + (
            f" in {epochs}" if summary.epochs else ""
        )
    return f"{figures.count(summary.records_done)} of {figures.plural(summary.records, 'record')}"


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _floats(raw: Mapping[str, float | None]) -> dict[str, float]:
    return {name: math.nan if value is None else float(value) for name, value in raw.items()}
