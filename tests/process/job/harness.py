"""A job as its user runs it: the real command in a folder of its own, followed, damaged, judged at its end.

`Run` starts `python -m elastic_runtime train ...`, tells how far it is by asking its master, kills what it is
told to kill, and `assert_right_end` checks all that has to be true of any job that ended, whatever befell it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from elastic_runtime.cli import runs
from elastic_runtime.cli import state as states
from elastic_runtime.cli.shown import merged
from elastic_runtime.data.example import encode
from elastic_runtime.data.recordio import Writer
from elastic_runtime.errors import ElasticError
from elastic_runtime.observe import events
from elastic_runtime.rpc import master_pb2

ZOO = Path(__file__).parent / "zoo"
SECONDS = 400.0
ORPHAN_SECONDS = 300
"""So long pods wait for the next master: on a busy machine it may take more than the default to be there."""
ANSWER_SECONDS = 60.0
"""A master that is only slow shall not be taken for one that is gone, whose files tell what was before."""
LOOK = 0.05
_TEMPORARY = re.compile(r"\..+|.*\.(tmp|unfinished)")
MakeRun = Callable[..., "Run"]


def write_data(folder: Path, records: int = 1200, files: int = 3, *, odd: int | None = None) -> Path:
    """Records of a question that a straight line answers, in RecordIO files; the `odd` one makes no sense."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(1)
    for number in range(files):
        with Writer(str(folder / f"data-{number:05d}"), chunk_bytes=4096) as writer:
            for record in range(records // files):
                x = chance.normal(size=8).astype(np.float32) if record != odd else np.full(8, 999, np.float32)
                writer.write(encode({"x": x, "y": int(x.sum() > 0)}))
    return folder


class Run:
    """One job, over all the processes that were its master."""

    envs: tuple[str, ...] = ()
    """What its pods have in their environment, beside the pace."""

    def __init__(
        self, folder: Path, data: Path, *options: str, verb: str = "train", model: str = "tiny"
    ) -> None:
        self.cwd, self.name = folder, f"j{os.getpid()}-{folder.name[:24].strip('_').replace('_', '-')}"
        self.folder = folder / "runs" / self.name
        self.output, self._pace = folder / "output.txt", folder / "pace"
        self.checkpoints = self.folder / "checkpoints"
        envs = ",".join((f"TINY_PACE={self._pace}", *self.envs))
        self.command = [
            sys.executable,
            *("-m", "elastic_runtime", verb, f"--job_name={self.name}", "--platform=process"),
            *(f"--model_zoo={ZOO}", f"--model_def={model}.custom_model", f"--envs={envs}"),
            *("--minibatch_size=16", "--num_minibatches_per_task=4"),
            *([f"--training_data={data}"] if verb == "train" else []),
            *options,
        ]
        if not any(option.startswith("--orphan_timeout=") for option in options):
            self.command.append(f"--orphan_timeout={ORPHAN_SECONDS}")
        self.pace(0)
        self.master: subprocess.Popen[bytes] | None = None
        self._run = runs.Run(self.name, self.folder)

    # What the user does

    def start(self, *more: str, before: Callable[[], None] | None = None) -> Run:
        """Give the command (again)."""
        with self.output.open("ab") as output:
            self.master = subprocess.Popen(
                [*self.command, *more],
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=before,  # noqa: PLW1509 - limits are what the test is about
            )
        return self

    def pace(self, seconds: float) -> None:
        """From now on a training record takes so long; 0: as fast as can be."""
        beside = self._pace.with_name(".pace")
        beside.write_text(str(seconds) if seconds else "")
        beside.rename(self._pace)

    def send(self, number: signal.Signals) -> None:
        """Signal the master."""
        assert self.master is not None
        self.master.send_signal(number)

    def again(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Give the command once more, to hear what it says."""
        command = [*self.command, *more]
        return subprocess.run(
            command, cwd=self.cwd, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def kill_master(self) -> None:
        """kill -9."""
        assert self.master is not None
        self.master.kill()
        self.master.wait()

    def hold(self) -> None:
        """Let a record take so long that next to nothing is trained until the next `pace`."""
        self.pace(2)

    def kill(self, *names: str, number: signal.Signals = signal.SIGKILL) -> list[int]:
        """Signal pods: one (`worker-0`), or all of a role (`worker`)."""
        mine = len(f"elasticdl-{self.name}-")
        pids = [pid for pod, pid in self.pids().items() if any(_is(pod, pod[mine:], name) for name in names)]
        assert pids, f"no {' or '.join(names)} runs: {self.pids()}"
        for pid in pids:
            os.kill(pid, number)
        return pids

    def job(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`elasticdl job ...`, in the job's folder."""
        verb, *more = arguments
        command = [sys.executable, "-m", "elastic_runtime", "job", verb, self.name, *more]
        return subprocess.run(
            command, cwd=self.cwd, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    # How it is going

    def status(self) -> master_pb2.StatusReply:
        """What the master says; without one, what it last wrote."""
        if not self.folder.exists():
            return master_pb2.StatusReply()
        with mock.patch.object(states, "_ANSWER_SECONDS", ANSWER_SECONDS):
            return states.state(self._run).reply

    def ledger(self) -> list[dict[str, Any]]:
        """What `elasticdl job ledger --json` tells, without a process for it."""
        epochs = [states.plain(epoch) for epoch in states.whole_ledger(self.status())]
        for source in (source for epoch in epochs for source in epoch["sources"]):
            source["done"] = merged([(part["start"], part["end"]) for part in source["done"]])
        return epochs

    def pids(self) -> dict[str, int]:
        """The job's running pods but the master."""
        found = {}
        for record in (self.folder / "pods").glob("*.json"):
            with contextlib.suppress(ValueError):
                facts = json.loads(record.read_text())
                if _marked(facts["pid"], facts["name"]):
                    found[facts["name"]] = facts["pid"]
        return found

    def events(self, kind: type[events.Event] | None = None) -> list[Any]:
        """All that is on record so far."""
        found = events.read_events(self.folder / events.FILE_NAME)
        return [event for event in found if kind is None or isinstance(event, kind)]

    def text(self) -> str:
        """All that the command printed, over all its starts."""
        return self.output.read_text(errors="replace")

    def log(self, pod: str) -> str:
        """A pod's log."""
        return (self.folder / "logs" / f"elasticdl-{self.name}-{pod}.log").read_text(errors="replace")

    def until(self, condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
        """Wait until the condition holds; the job must go on meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            is_over = self.master is not None and self.master.poll() is not None  # it may be so by its end
            with contextlib.suppress(ElasticError, FileNotFoundError):
                if found := condition():
                    return found
            assert not is_over, f"ended before: {what}\n{self.report()}"
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{self.report()}"
            time.sleep(LOOK)

    def until_done(self, records: int) -> None:
        """Wait until so many records are done."""
        self.until(lambda: self.status().records_done >= records, f"{records} records done")

    def until_training(self, workers: int) -> None:
        """Wait until so many workers have joined, and each of them has made a step."""
        logs = self.folder / "logs"

        def trained() -> bool:
            members = [(logs / f"{pod}.log").read_text(errors="replace") for pod in self.members()]
            return sum("Loss = " in log for log in members) >= workers and self.status().version > 0

        self.until(trained, f"{workers} workers train")

    def until_joined(self, *names: str) -> None:
        """Wait until these workers are there."""
        wanted = {f"elasticdl-{self.name}-{name}" for name in names}
        self.until(lambda: wanted <= self.members(), f"{names} joined")

    def until_it_stands_still(self) -> None:
        """Wait until a second passes in which nothing is trained."""
        seen = [(-1, 0.0)]

        def still() -> bool:
            version, now = self.status().version, time.monotonic()
            if version != seen[0][0]:
                seen[0] = (version, now)
            return now > seen[0][1] + 1.0

        self.until(still, "the training stands still")

    def members(self) -> set[str]:
        """The workers that have joined and whose process lives."""
        joined = {event.worker for event in self.events(events.WorkerJoined)}
        return joined & self.pids().keys()

    def until_said(self, pattern: str) -> re.Match[str]:
        """Wait for a line of the master's."""
        found: re.Match[str] = self.until(
            lambda: re.search(pattern, self.text()), f"the master says {pattern!r}"
        )
        return found

    def until_gone(self, seconds: float) -> None:
        """Wait until no process of the job is left, without a master that could end them."""
        deadline = time.monotonic() + seconds
        while self.processes():
            assert time.monotonic() < deadline, f"not gone within {seconds:g} s\n{self.report()}"
            time.sleep(LOOK)

    def pod_ends(self, name: str) -> list[str]:
        """The causes of the ends of a pod."""
        ends = self.events(events.PodEnded)
        return [event.cause for event in ends if event.pod == f"elasticdl-{self.name}-{name}"]

    def ends(self, seconds: float = SECONDS) -> int:
        """Wait for the end of the command; its exit code."""
        assert self.master is not None
        try:
            return self.master.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end within {seconds:g} s\n{self.report()}") from None

    # What has to be true at the end

    def assert_right_end(
        self, code: int = 0, status: str = "succeeded", *, exact: bool = True
    ) -> dict[str, Any]:
        """Exit code, summary, ledger; no process and no temporary file left. Returns the summary."""
        ended = self.ends()
        assert ended == code, f"exit code {ended}, not {code}\n{self.report()}"
        summary: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        assert summary["status"] == status, summary
        if exact:
            self.assert_exact_ledger(summary)
        assert self.processes() == []
        assert self.temporary_files() == []
        return summary

    def assert_exact_ledger(self, summary: dict[str, Any]) -> None:
        """Every record of every epoch is done, once."""
        epochs, passes = self.ledger(), summary["epochs"] or 1  # a prediction has none
        assert [epoch["epoch"] for epoch in epochs] == list(range(1, passes + 1))
        for epoch in epochs:
            done = {source["source"]: source["done"] for source in epoch["sources"]}
            assert done == {s["source"]: [[0, s["records"]]] for s in epoch["sources"]}, epoch
            assert epoch["records_done"] == epoch["records"] == summary["records"] // passes
        assert summary["records_done"] == summary["records"]

    def processes(self) -> list[str]:
        """The job's living processes, as command lines."""
        return [" ".join(words) for _, words in _processes(self.name)]

    def temporary_files(self) -> list[str]:
        """What a write that was broken off would leave, and the pods' own folders for such files."""
        written = [path for path in self.folder.rglob("*") if _TEMPORARY.fullmatch(path.name)]
        scratch = Path(tempfile.gettempdir()).glob(f"elasticdl-{self.name}-*")
        return [str(path) for path in (*written, *scratch)]

    def report(self) -> str:
        """What is known when something is wrong."""
        logs = "\n".join(
            f"--- {path.name}\n{_end(path)}" for path in sorted(self.folder.glob("logs/*-*-[wp]*.log"))
        )
        return f"{_end(self.output)}\n{logs}\nprocesses: {self.processes()}"

    def close(self) -> None:
        """Nothing outlives the test."""
        for pid, _ in _processes(self.name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.master is not None:
            self.master.wait()


def free_port() -> int:
    """One to listen on later: of those that no connection is given in between."""
    chance = random.Random()
    while True:
        port = chance.randrange(20_000, 30_000)
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port


def _is(pod: str, short: str, name: str) -> bool:
    """Whether a whole name, `worker-0` or `worker` names this pod."""
    return name in (pod, short, short.rpartition("-")[0])


def _marked(pid: int, pod: str) -> bool:
    """Whether the process is that pod; while it becomes another program it shows no environment."""
    for _ in range(1000):
        if _is_dead(pid):
            return False
        if any(words := _words(pid, "environ")):
            return f"ELASTICDL_POD={pod}" in words
        time.sleep(0.01)
    return False


def _processes(job: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The job's processes: those that name it, and whatever they started."""
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        words, environment = _words(pid, "cmdline"), _words(pid, "environ")
        is_pod = any(entry.startswith(f"ELASTICDL_POD=elasticdl-{job}-") for entry in environment)
        if (f"--job_name={job}" in words or is_pod) and not _is_dead(pid):
            yield pid, words


def _words(pid: int, of: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{of}").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _end(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-40:]) if path.exists() else "(nothing)"
