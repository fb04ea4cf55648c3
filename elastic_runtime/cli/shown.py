"""How `elasticdl job` shows what is known of one job: its state, its pods, its ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import click

from elastic_runtime.cli import tables
from elastic_runtime.cli.state import State, plain, whole_ledger
from elastic_runtime.errors import ElasticError
from elastic_runtime.observe import figures, words
from elastic_runtime.rpc import master_pb2

_WITHOUT_FIGURES = ("job", "status", "message", "pods")


def status(found: State, as_json: bool) -> None:
    """How far the job is."""
    if as_json:
        ledger = {"ledger": [plain(each) for each in whole_ledger(found.reply)]} if found.has_figures else {}
        tables.show_json(facts(found) | ledger)
        return
    reply = found.reply
    click.echo(f"job {reply.job}: {found.status}" + (f", {reply.message}" if reply.message else ""))
    if found.has_figures:
        _show_figures(found)
    _show_pods(found)
    if found.is_orphaned:
        namespace = f" -n {found.namespace}" if found.namespace else ""
        clean = f"`elasticdl job clean {reply.job}{namespace}`"
        click.echo(f"Start the same command again to go on, or {clean} to end it.")


def pods(found: State, as_json: bool) -> None:
    """The job's pods."""
    if as_json:
        tables.show_json([plain(pod) for pod in found.reply.pods])
    else:
        _show_pods(found)


def ledger(found: State, as_json: bool) -> None:
    """Which records are done, epoch by epoch."""
    if not found.has_figures:
        raise ElasticError("there is no ledger to look at", where=found.reply.job, remedy=found.reply.message)
    epochs = [plain(epoch) for epoch in whole_ledger(found.reply)]
    for source in (source for epoch in epochs for source in epoch["sources"]):
        source["done"] = merged([(part["start"], part["end"]) for part in source["done"]])
    if as_json:
        tables.show_json(epochs)
        return
    tables.show_table(
        ("epoch", "source", "records", "done"),
        [
            (str(epoch["epoch"]), source["source"], source["records"], _ranges(source["done"]))
            for epoch in epochs
            for source in epoch["sources"]
        ],
    )


COMMANDS: Mapping[str, Callable[[State, bool], None]] = {"status": status, "pods": pods, "ledger": ledger}


def facts(found: State) -> dict[str, Any]:
    """What is known of the job, for programs."""
    known = plain(found.reply)
    if not found.has_figures:
        known = {name: known[name] for name in _WITHOUT_FIGURES}
    return known | {"master_alive": found.is_live}


def epoch(reply: master_pb2.StatusReply) -> str:
    """The present epoch, and of how many, unless they are without end."""
    return f"{reply.epoch} of {reply.epochs}" if reply.epochs else str(reply.epoch)


def merged(intervals: list[tuple[int, int]]) -> list[list[int]]:
    """Intervals in order, those that touch joined."""
    result: list[list[int]] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1][1] = max(end, result[-1][1])
        else:
            result.append([begin, end])
    return result


def _ranges(intervals: list[list[int]]) -> str:
    return " ".join(f"{begin}-{end}" for begin, end in intervals) or "-"


def _show_figures(found: State) -> None:
    reply = found.reply
    done, total = figures.count(reply.records_done), figures.plural(reply.records_total, "record")
    records = f"{done} of {total}" if reply.records_total else figures.plural(reply.records_done, "record")
    parts = [f"epoch {epoch(reply)}", f"version {reply.version}", records]
    if found.is_live:
        parts.append(f"{figures.figure(reply.records_per_second)} records/s")
    if math.isfinite(reply.loss):
        parts.append(f"loss {figures.figure(reply.loss)}")
    click.echo(", ".join(parts))
    for evaluation in list(reply.evaluations)[-1:]:
        click.echo(f"evaluation of version {evaluation.version}: {words.metrics(evaluation.metrics)}")


def _show_pods(found: State) -> None:
    """What they wait for has a column only where one does."""
    pods = found.reply.pods
    rows = [
        (
            pod.name,
            pod.state,
            str(pod.pid or "-"),
            tables.moment(pod.started),
            pod.relaunched_because or "-",
            pod.waits_for or "-",
        )
        for pod in pods
    ]
    columns = ("pod", "state", "pid", "started", "relaunched because", "waits for")
    shown = len(columns) if any(pod.waits_for for pod in pods) else len(columns) - 1
    tables.show_table(columns[:shown], [row[:shown] for row in rows])
