"""A real job that is measured: started by the `elasticdl` command, disturbed by signals, read afterwards.

The figures come from the master's journal, which holds the moment of every accepted shard. It cannot be read
while a master writes it, and one that ends in order tidies it up: so `end` kills the master and all pods, and
reads then.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from elastic_runtime.cli.runs import Run
from elastic_runtime.cli.state import state
from elastic_runtime.data import recordio
from elastic_runtime.master.journal import read_only
from elastic_runtime.observe.events import FILE_NAME, Event, Sample, ShardRequeued, read_events
from elastic_runtime.platform.pods import Role, pod_name
from elastic_runtime.platform.process.folder import RunFolder

MODELS = Path(__file__).parent / "models"
JOB, FILE = "bench", "data-00000"
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.05
STEP_LINE = "Loss ="  # in a worker's log after its first step


@dataclass(frozen=True, slots=True)
class Accepted:
    """The master accepted that this worker finished a shard."""

    time: float
    worker: str


class MeasuredJob:
    """One job in a folder of its own, which trains without end; nothing of it lives on after `with`."""

    def __init__(
        self,
        folder: Path,
        *,
        model: Path,
        data: Path,
        options: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir()
        self._folder, self._environment = folder, {**os.environ, **(environment or {})}
        self._run = Run(JOB, folder / "run")
        self._pods = RunFolder(self._run.folder)
        self._command = [
            *(sys.executable, "-m", "elastic_runtime", "train", f"--job_name={JOB}", "--platform=process"),
            *(f"--run_dir={self._run.folder}", f"--model_def={model}", "--num_epochs=0"),
            *(f"--training_data={data}", *options),
        ]
        self._master: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and (log := self._folder / "output").exists():
            sys.stderr.write(log.read_text(errors="replace"))
        self._kill_all()

    def start(self) -> float:
        """Give the command, for the first time or again; when that was."""
        with (self._folder / "output").open("ab") as output:
            now = time.time()
            self._master = subprocess.Popen(
                self._command, stdout=output, stderr=output, env=self._environment, start_new_session=True
            )
        return now

    def records_per_second(self, *, workers: int, records_per_shard: int, seconds: float) -> float:
        """Start, measure for so long once all workers train, and `end`; all shards must be of that size."""
        self.start()
        for number in range(workers):
            self.await_first_step(number)
        begin = time.time()
        time.sleep(seconds)
        times = [shard.time for shard in self.end() if shard.time >= begin]
        return (len(times) - 1) * records_per_shard / (times[-1] - times[0])

    def kill_master(self) -> None:
        """SIGKILL; it is gone on return."""
        assert self._master is not None
        self._master.kill()
        self._master.wait()

    def kill_worker(self, number: int) -> float:
        """SIGKILL to one worker; when that was."""
        pod = self._pods.running(worker(number))
        assert pod is not None, f"{worker(number)} does not run"
        assert pod.pid is not None
        now = time.time()
        os.kill(pod.pid, signal.SIGKILL)
        return now

    def await_first_step(self, number: int) -> None:
        """Until that worker has trained."""
        log = self._pods.log(worker(number))
        self._until(
            lambda: log.exists() and STEP_LINE in log.read_text(errors="replace"), f"{worker(number)} trains"
        )

    def await_more_records(self) -> None:
        """Until a master is there, and has accepted something since it answered first."""
        self._until(self._is_live, "the master answers")
        before = state(self._run).reply.records_done
        self._until(lambda: state(self._run).reply.records_done > before, "more records are done")

    def records_retrained(self) -> int:
        """As the job tells it now."""
        return state(self._run).reply.records_retrained

    def samples(self, begin: float) -> list[Sample]:
        """Where the job stood, again and again since then."""
        return [each for each in self._events() if isinstance(each, Sample) and each.time >= begin]

    def records_twice(self, begin: float) -> int:
        """Since then: those of shards that were trained again."""
        again = (each for each in self._events() if isinstance(each, ShardRequeued) and each.time >= begin)
        return sum(each.records for each in again)

    def end(self) -> list[Accepted]:
        """Kill everything; what was accepted in the job's whole life, in order."""
        self._kill_all()
        snapshot, rows = read_only(self._run.folder / "journal.sqlite")
        assert snapshot is None, "the journal was tidied up meanwhile: measure for a shorter time"
        return [Accepted(row[5], row[2]) for row in rows if row[:2] == ["training", "Finished"]]

    def _events(self) -> list[Event]:
        return read_events(self._run.folder / FILE_NAME)

    def _is_live(self) -> bool:
        return state(self._run).is_live

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self._master is not None
            if self._master.poll() is not None:
                raise RuntimeError(f"the job ended (exit code {self._master.returncode}) before {what}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not in {PATIENCE_SECONDS:g} s: {what}")
            time.sleep(LOOK_SECONDS)

    def _kill_all(self) -> None:
        if self._master is not None:
            self.kill_master()
        for name in self._pods.names():
            if (pod := self._pods.running(name)) and pod.pid is not None:
                _kill_group(pod.pid)


def worker(number: int) -> str:
    """The name of the job's worker of that number."""
    return pod_name(JOB, Role.WORKER, number)


def _kill_group(pid: int) -> None:
    """Return once its leader is gone: it might still write into the job's folder."""
    process = os.pidfd_open(pid)
    try:
        os.killpg(pid, signal.SIGKILL)
        select.select([process], [], [], PATIENCE_SECONDS)
    finally:
        os.close(process)


def write_records(folder: Path, records: Iterable[bytes]) -> Path:
    """Make a folder with one file of records, in chunks as the converters write them; the folder."""
    folder.mkdir()
    writer = recordio.Writer(str(folder / FILE), chunk_bytes=1 << 20)
    for record in records:
        writer.write(record)
    writer.close()
    return folder
