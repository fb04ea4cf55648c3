"""The run folder's part about pods: who is alive, who was, and what they wrote.

`pods/<name>.json` is written by the pod's own process while it holds the lock on it (`launch.py`);
`pods/<name>.exit` by whoever knows how that process ended, itself or the master. Nothing here holds state,
so a master, its successor and `elasticdl job pods` see the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

from elastic_runtime.platform.exits import Verdict, judge
from elastic_runtime.platform.pods import ExitCause, Phase, Pod, Role

_FLOCK = "hhqqi4x"
_TAIL_BYTES, _TAIL_LINES = 8192, 20


class RunFolder:
    """Paths and facts of the pods of one run."""

    def __init__(self, run_dir: Path) -> None:
        self._pods, self._logs = run_dir / "pods", run_dir / "logs"

    def prepare(self) -> None:
        """Make the folders a pod writes to."""
        self._pods.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)

    def record(self, name: str) -> Path:
        """The pod's record and lock."""
        return self._pods / f"{name}.json"

    def exit_record(self, name: str) -> Path:
        """How the pod's process ended."""
        return self._pods / f"{name}.exit"

    def log(self, name: str) -> Path:
        """All that the pod's processes wrote, one after the other."""
        return self._logs / f"{name}.log"

    def names(self) -> list[str]:
        """Every pod that was ever started here."""
        return sorted(path.stem for path in self._pods.glob("*.json"))

    def holder(self, name: str) -> int | None:
        """The process that holds the pod's lock: the pod itself, or one about to become it."""
        try:
            file = os.open(self.record(name), os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
        finally:
            os.close(file)
        return None if kind == fcntl.F_UNLCK else int(pid)

    def pod(self, name: str) -> Pod | None:
        """The pod as it is now, running or ended; an end that nobody recorded has no cause yet."""
        facts = _read(self.record(name))
        if facts is None:
            return None
        pod = Pod(
            name=name,
            role=Role(facts["role"]),
            index=facts["index"],
            phase=Phase.RUNNING,
            started=facts["started"],
            pid=facts["pid"],
            relaunched_because=facts["relaunched_because"],
        )
        return pod if self.holder(name) == pod.pid else self._ended(pod)

    def running(self, name: str) -> Pod | None:
        """The pod, if it is alive."""
        pod = self.pod(name)
        return pod if pod and pod.phase is Phase.RUNNING else None

    def judge(self, pod: Pod, status: int | None, *, oom_killed: bool) -> Verdict:
        """Why this pod ended: by its own record if its status is not known, else from status and log."""
        if status is None and (told := self._ended(pod)).cause:
            return Verdict(told.cause, told.exit_code, told.detail)
        return judge(status, self._last_lines(pod), oom_killed=oom_killed)

    def clear_scratch(self, pod: Pod) -> None:
        """Remove what the ended process left in the folder for temporary files that it had of its own."""
        facts = _read(self.record(pod.name)) or {}
        if facts.get("pid") == pod.pid:
            _remove_scratch(pod.name, facts)

    def clear_all_scratch(self) -> None:
        """The same for every pod that has ended, for when there is no master that would."""
        for name in self.names():
            if self.holder(name) is None:
                _remove_scratch(name, _read(self.record(name)) or {})

    def _ended(self, pod: Pod) -> Pod:
        told = _read(self.exit_record(pod.name))
        if told is None or told["pid"] != pod.pid:
            return dataclasses.replace(pod, phase=Phase.ENDED)
        cause = ExitCause(told["cause"])
        return dataclasses.replace(
            pod, phase=Phase.ENDED, cause=cause, exit_code=told["exit_code"], detail=told["detail"]
        )

    def _last_lines(self, pod: Pod) -> list[str]:
        facts = _read(self.record(pod.name)) or {}
        begin = facts["log_from"] if facts.get("pid") == pod.pid else 0
        try:
            with self.log(pod.name).open("rb") as log:
                log.seek(max(begin, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
                return log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        except FileNotFoundError:
            return []


def write_exit(path: Path, pid: int, verdict: Verdict) -> None:
    """Keep how the pod's process ended; with the disk full, a later master takes it for preempted."""
    with contextlib.suppress(OSError):
        path.write_text(json.dumps({"pid": pid} | dataclasses.asdict(verdict)))


def _remove_scratch(name: str, facts: dict[str, Any]) -> None:
    scratch = str(facts.get("scratch", ""))
    if Path(scratch).name.startswith(f"{name}."):  # what a damaged record names is nobody's to remove
        shutil.rmtree(scratch, ignore_errors=True)


def _read(path: Path) -> dict[str, Any] | None:
    """The record, or None if there is none or its process is just writing it."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
