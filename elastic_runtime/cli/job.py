"""`elasticdl job`: look at the jobs of this machine, stop them, clean up after them.

A living master is asked; without one, the files it left in the run folder tell.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from elastic_runtime.cli import processes, shown, tables
from elastic_runtime.cli.runs import Run, all_runs, find
from elastic_runtime.cli.state import State, ask_to_stop, state
from elastic_runtime.errors import ElasticError, InputError, nearest
from elastic_runtime.observe import figures
from elastic_runtime.platform.process import RunFolder, claim
from elastic_runtime.rpc import master_pb2

_run_dir = click.option("--run_dir", type=click.Path(path_type=Path), help="The job's run folder. [runs/JOB]")
_namespace = click.option("-n", "--namespace", help="The job runs on Kubernetes, in this namespace.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _of_one_job(command: Callable[..., None]) -> Callable[..., int | None]:
    """Give a command the job it is called for, as a `Run`; for a job in a cluster, run it there."""

    @click.argument("job")
    @_run_dir
    @_namespace
    @functools.wraps(command)
    def called(job: str, run_dir: Path | None, namespace: str | None, **options: Any) -> int | None:
        if namespace is not None:
            _only_here("run_dir", "keep_files", "grace")
            return _in_cluster(job, namespace, **options)
        command(find(job, run_dir), **options)
        return None

    return called


def _only_here(*names: str) -> None:
    """Refuse those that mean nothing for a job in a cluster, if they were given."""
    context = click.get_current_context()
    for param in context.command.params:
        given = context.get_parameter_source(param.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and param.name in names:
            raise InputError(
                "is about the files and processes of this machine",
                where=param.opts[0],
                remedy="leave it out, or --namespace",
            )


def _in_cluster(job: str, namespace: str, **options: Any) -> int:
    from elastic_runtime.cli import cluster_jobs

    command = click.get_current_context().command
    if command.name == "logs":
        cluster_jobs.logs(job, namespace, options["pod"], follow=options["follow"])
        return 0
    if command.name == "stop":
        cluster_jobs.stop(job, namespace, timeout=options["timeout"])
        return 0
    if command.name == "clean":
        cluster_jobs.clean(job, namespace, force=options["force"])
        return 0
    if (found := cluster_jobs.state_without_master(job, namespace)) is not None:
        shown.COMMANDS[str(command.name)](found, options["as_json"])
        return 0
    typed = ["--json"] if options["as_json"] else []
    return cluster_jobs.forward(job, namespace, [str(command.name), *typed])


@click.group()
def job() -> None:
    """Look at jobs, stop them, clean up after them."""


@job.command("list")
@_run_dir
@_namespace
@_json
def list_jobs(run_dir: Path | None, namespace: str | None, as_json: bool) -> None:
    """List the jobs that have a folder in runs/, or those of a namespace."""
    if namespace is not None:
        from elastic_runtime.cli import cluster_jobs

        _only_here("run_dir")
        cluster_jobs.list_jobs(namespace, as_json=as_json)
        return
    states = [_state_if_readable(run) for run in ([Run(run_dir.name, run_dir)] if run_dir else all_runs())]
    if as_json:
        keys = (
            "job",
            "status",
            "master_alive",
            "version",
            "epoch",
            "epochs",
            "records_done",
            "records_total",
        )
        tables.show_json([{key: shown.facts(found)[key] for key in keys} for found in states])
        return
    tables.show_table(
        ("job", "status", "epoch", "version", "records done", "of"),
        [
            (r.job, found.status, shown.epoch(r), r.version, r.records_done, r.records_total or "-")
            for found in states
            for r in (found.reply,)
        ],
    )


@job.command()
@_of_one_job
@_json
def status(run: Run, as_json: bool) -> None:
    """Show how far a job is."""
    shown.status(state(run), as_json)


@job.command()
@_of_one_job
@_json
def pods(run: Run, as_json: bool) -> None:
    """List a job's pods."""
    shown.pods(state(run), as_json)


@job.command()
@_of_one_job
@_json
def ledger(run: Run, as_json: bool) -> None:
    """Show which records are done, epoch by epoch."""
    shown.ledger(state(run), as_json)


@job.command()
@_of_one_job
@click.argument("pod", default="master")
@click.option("-f", "--follow", is_flag=True, help="Go on as the pod writes, until the job's master ends.")
def logs(run: Run, pod: str, follow: bool) -> None:
    """Print the log of a pod, by its name or its end, such as worker-0."""
    folder = run.folder / "logs"
    known = sorted(path.stem for path in folder.glob("*.log"))
    name = next((name for name in (pod, f"elasticdl-{run.job}-{pod}") if name in known), None)
    if name is None:
        remedy = nearest(pod, known) if known else "nothing has been logged yet"
        raise InputError(f"job {run.job} has no log of a pod {pod!r}", remedy=remedy)
    path = folder / f"{name}.log"
    if follow and (master := run.master()):
        sys.stdout.flush()
        os.execvp("tail", ["tail", "-n", "+1", "-F", "-s", "0.2", f"--pid={master}", str(path)])  # noqa: S606
    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)


@job.command()
@_of_one_job
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=300.0,
    show_default=True,
    help="Seconds to wait for the job's end.",
)
def stop(run: Run, timeout: float) -> None:
    """Let a job drain, save a checkpoint, and end."""
    master = run.master()
    found = state(run)
    if master is None and not found.is_live:
        remedy = f"; `elasticdl job clean {run.job}` ends what is left of it" if found.is_orphaned else ""
        click.echo(f"job {run.job} is not running{remedy}")
        return
    ask_to_stop(run, "asked for by `elasticdl job stop`")
    process = processes.hold(master) if master else None
    if process and processes.wait([process], timeout):
        raise ElasticError(
            f"the job has not ended within {timeout:g} s",
            where=run.job,
            remedy=f"it is still draining; `elasticdl job clean {run.job} --force` ends it at once",
        )
    click.echo(f"job {run.job}: {state(run).status if process else 'asked to stop'}")


@job.command()
@_of_one_job
@click.option("--keep_files", is_flag=True, help="Leave the run folder.")
@click.option("--force", is_flag=True, help="End the job even if its master is alive.")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="Seconds between SIGTERM and SIGKILL.",
)
def clean(run: Run, keep_files: bool, force: bool, grace: float) -> None:
    """End what is left of a job, and remove its run folder."""
    master = run.master()
    if master and not force:
        raise ElasticError(
            f"the job's master is alive, process {master}",
            where=run.job,
            remedy=f"`elasticdl job stop {run.job}` first, or --force",
        )
    found = processes.processes_of(run)
    processes.end(found, grace)
    RunFolder(run.folder).clear_all_scratch()
    ended = ", ".join(str(process.pid) for process in found)
    click.echo(
        f"ended {figures.plural(len(found), 'process', 'processes')}" + (f": {ended}" if ended else "")
    )
    if keep_files:
        return
    with claim(run.folder, run.job):  # no successor may begin in a folder that is going away
        files = [path for path in run.folder.rglob("*") if path.is_file()]
        shutil.rmtree(run.folder)
    click.echo(f"removed {run.folder} with {figures.plural(len(files), 'file')}")


def _state_if_readable(run: Run) -> State:
    try:
        return state(run)
    except ElasticError:  # one job's damage must not hide the others
        return State(master_pb2.StatusReply(job=run.job, status="unreadable"), is_live=False)
