"""Run folders: which jobs there are, where their files are, and who is their master."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.errors import ElasticError, InputError, nearest

RUNS = Path("runs")
_WRITTEN_BY_A_JOB = ("job.json", "master.lock", "status.json", "summary.json", "pods", "logs")


@dataclass(frozen=True, slots=True)
class Run:
    """A job and the folder it writes to."""

    job: str
    folder: Path

    def master(self) -> int | None:
        """The process that holds the claim on this folder: the job's living master on this machine."""
        lock = self.folder / "master.lock"
        try:
            pid = int(json.loads(lock.read_text())["pid"])
            opened = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid if str(lock.resolve()) in opened else None

    def read(self, name: str) -> str:
        """The text of one of the job's files; empty while there is none."""
        path = self.folder / name
        try:
            return path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise ElasticError(f"cannot be read: {error}", where=str(path)) from None


def find(job: str, run_dir: Path | None) -> Run:
    """The run of this name, in the folder given or in `runs/`."""
    folder = run_dir or RUNS / job
    if _is_run(folder):
        return Run(job, folder)
    known = [run.job for run in all_runs()]
    if run_dir:
        raise InputError("no job has written here", where=str(run_dir), remedy="give the job's own --run_dir")
    remedy = (
        nearest(job, known)
        if known
        else "there are no jobs here; --run_dir names the folder of one elsewhere"
    )
    raise InputError(f"unknown job {job!r}", remedy=remedy)


def all_runs() -> list[Run]:
    """Every run in `runs/`."""
    folders = sorted(RUNS.iterdir()) if RUNS.is_dir() else []
    return [Run(folder.name, folder) for folder in folders if _is_run(folder)]


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in _WRITTEN_BY_A_JOB)
