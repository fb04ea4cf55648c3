"""The process platform: each pod a process of this machine, in its own session, with one log.

Who is alive is written nowhere but in the locks of the run folder, so a master that was killed at any
moment leaves nothing to repair: its successor finds the running pods there, watches them like its own, and
a repeated `start` returns the pod that runs. Each process is attended by one task, from its start or
adoption to the end of its group.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from pathlib import Path

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.platform.exits import Verdict
from elastic_runtime.platform.pods import EXIT_NEVER_STARTED, ExitCause, Phase, Pod, PodSpec, Watch, Watches
from elastic_runtime.platform.process import launch
from elastic_runtime.platform.process.child import EXIT_RECORD
from elastic_runtime.platform.process.folder import RunFolder, write_exit
from elastic_runtime.platform.process.processes import (
    POD,
    end_group,
    gone,
    oom_kills,
    readable,
    reap,
    signal_group,
)

_INHERITED = (
    *("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
_INHERITED_PREFIXES = (
    *("LC_", "PYTHON", "ELASTICDL_", "TF_", "KERAS_", "XLA_", "OMP_", "NUMBA_", "CUDA_", "GRPC_", "SSL_"),
    *("AWS_", "GOOGLE_", "FSSPEC_"),
)
_FOLLOW_SECONDS = 0.2  # a file that grows gives no event
_CHUNK = 1 << 16


class ProcessPlatform:
    """Runs the pods of one job as processes; see `Platform` for the contract."""

    def __init__(self, run_dir: Path, job: str) -> None:
        self._job = job
        self._folder = RunFolder(run_dir.absolute())
        self._launches: dict[str, asyncio.Task[Pod]] = {}
        self._attendants: dict[str, asyncio.Task[Pod]] = {}
        self._watches = Watches()
        self._oom_kills = oom_kills()

    async def start(self, spec: PodSpec) -> Pod:
        """Start the pod, or return the running pod of that name.

        A start once begun is finished even if the caller is cancelled, so no process is left unattended.
        """
        launching = self._launches.get(spec.name)
        if launching is None:
            launching = self._launches[spec.name] = asyncio.create_task(self._launch(spec))
            launching.add_done_callback(lambda _: self._launches.pop(spec.name))
        return await asyncio.shield(launching)

    async def stop(self, name: str, grace: float) -> None:
        """SIGTERM to the pod's group, SIGKILL after `grace` seconds; returns once the whole group is gone."""
        if launching := self._launches.get(name):
            await asyncio.wait([launching])
        pod = self._folder.running(name)
        attendant = self._attend(pod) if pod else self._attendants.get(name)
        if pod and attendant:
            signal_group(_pid(pod), signal.SIGTERM)
            await asyncio.wait([attendant], timeout=grace)
            if not attendant.done():
                signal_group(_pid(pod), signal.SIGKILL)
        if attendant:
            await asyncio.wait([attendant])

    async def stop_all(self, grace: float) -> None:
        """Stop every pod at the same time."""
        names = {*self._launches, *self._folder.names()}
        await asyncio.gather(*(self.stop(name, grace) for name in names))

    async def watch(self) -> Watch:
        """Each pod there is or was, and every change."""
        watch = self._watches.begin([*self._take_over()])
        watch.pods = [await self._concluded(pod) for pod in watch.pods]
        return watch

    async def list(self, *, ended: bool = False) -> list[Pod]:
        """All pods that are running, or were."""
        if ended:
            return [await self._concluded(pod) for pod in self._take_over()]
        return [pod for name in self._folder.names() if (pod := self._folder.running(name))]

    async def logs(self, name: str, *, follow: bool = False) -> AsyncIterator[str]:
        """The lines a pod has written; with `follow`, those to come until it ends."""
        if not self._folder.log(name).exists():
            known = self._folder.names()
            raise InputError(f"no pod {name!r} in this job", remedy=nearest(name, known) if known else "")
        rest = b""
        with self._folder.log(name).open("rb") as log:
            while True:
                writer = self._folder.running(name) if follow else None
                while chunk := log.read(_CHUNK):
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield line.decode(errors="replace")
                if writer is None:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(gone(_pid(writer)), _FOLLOW_SECONDS)
        if rest:
            yield rest.decode(errors="replace")

    async def close(self) -> None:
        """End the watches and let go of the pods; they run on."""
        tasks = [*self._launches.values(), *self._attendants.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._attendants.clear()
        self._watches.tell(None)

    async def _launch(self, spec: PodSpec) -> Pod:
        while True:
            if (pod := self._folder.running(spec.name)) and self._attend(pod):
                return pod
            if predecessor := self._attendants.get(spec.name):
                await asyncio.wait([predecessor])
            if holder := self._folder.holder(spec.name):
                await gone(holder)  # a launch that a dead master left behind: it gives up by itself
            try:
                pod, pidfd, reply = self._spawn(spec)
            except OSError as error:
                return self._never_started(spec, error)
            complaint = asyncio.create_task(_read_to_end(reply))
            attendant = self._begin(pod.name, self._attended(pod, pidfd, complaint))
            if not await asyncio.shield(complaint):
                return pod
            if complaint.result() != launch.TAKEN:
                return await attendant
            await asyncio.wait([attendant])

    def _spawn(self, spec: PodSpec) -> tuple[Pod, int, int]:
        """Start the process: the pod it is to become, its pidfd, and the pipe on which it complains."""
        assert spec.job == self._job, f"a pod of {spec.job} in the run folder of {self._job}"
        self._folder.prepare()
        record, exit_record = self._folder.record(spec.name), self._folder.exit_record(spec.name)
        log, started = self._folder.log(spec.name), time.time()
        scratch = tempfile.mkdtemp(prefix=f"{spec.name}.")
        facts = {
            "name": spec.name,
            "job": spec.job,
            "role": spec.role,
            "index": spec.index,
            "relaunched_because": spec.relaunched_because,
            "started": started,
            "log_from": log.stat().st_size if log.exists() else 0,
            "scratch": scratch,
        }
        arguments = [str(record), str(exit_record), str(os.getpid()), json.dumps(facts), *spec.command]
        reply, its_reply = os.pipe()
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", launch.__file__, *arguments],
                _environment(spec) | {EXIT_RECORD: str(exit_record), "TMPDIR": scratch},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, its_reply, launch.REPLY),
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )
        except OSError:
            os.close(reply)
            os.rmdir(scratch)
            raise
        finally:
            os.close(its_reply)
        pod = Pod(spec.name, spec.role, spec.index, Phase.RUNNING, started, pid, spec.relaunched_because)
        return pod, os.pidfd_open(pid), reply

    def _take_over(self) -> Iterable[Pod]:
        """Attend every pod found alive. The end of an attended one is told by its attendant."""
        found = []
        for name in self._folder.names():
            pod = self._folder.pod(name)
            if pod and pod.phase is Phase.RUNNING and self._attend(pod) is None:
                pod = self._folder.pod(name)
            if pod and (pod.phase is Phase.RUNNING or name not in self._attendants):
                found.append(pod)
        return found

    def _attend(self, pod: Pod) -> asyncio.Task[Pod] | None:
        """The task that waits for this pod's end, or None if it has ended already."""
        if attendant := self._attendants.get(pod.name):
            return attendant
        try:
            pidfd = os.pidfd_open(_pid(pod))
        except ProcessLookupError:
            return None
        if self._folder.holder(pod.name) != pod.pid:
            os.close(pidfd)
            return None
        return self._begin(pod.name, self._attended(pod, pidfd))

    def _begin(self, name: str, attended: Coroutine[None, None, Pod]) -> asyncio.Task[Pod]:
        self._attendants[name] = asyncio.create_task(attended)
        return self._attendants[name]

    async def _attended(self, pod: Pod, pidfd: int, complaint: asyncio.Task[str] | None = None) -> Pod:
        try:
            if complaint and not await complaint:
                self._watches.tell(pod)
            await readable(pidfd)
            status = reap(pidfd)
        finally:
            os.close(pidfd)
        why = complaint.result() if complaint else ""
        ended = pod if why == launch.TAKEN else await self._conclude(pod, status, why)
        del self._attendants[pod.name]
        if ended is not pod:
            self._watches.tell(ended)
        return ended

    def _never_started(self, spec: PodSpec, error: OSError) -> Pod:
        pod = Pod(
            spec.name,
            spec.role,
            spec.index,
            Phase.ENDED,
            time.time(),
            relaunched_because=spec.relaunched_because,
            cause=ExitCause.NEVER_STARTED,
            detail=f"cannot start a process: {error}",
        )
        self._watches.tell(pod)
        return pod

    async def _concluded(self, pod: Pod) -> Pod:
        """The pod; if it ended and nobody knows why yet, judged."""
        if pod.cause:  # whoever wrote that may have been killed before it had cleared the rest away
            self._folder.clear_scratch(pod)
        return pod if pod.phase is Phase.RUNNING or pod.cause else await self._conclude(pod, None)

    async def _conclude(self, pod: Pod, status: int | None, complaint: str = "") -> Pod:
        """Clear away what the ended process left running, and judge its end."""
        await end_group(_pid(pod), pod.name)
        verdict = (
            Verdict(ExitCause.NEVER_STARTED, EXIT_NEVER_STARTED, complaint)
            if complaint
            else self._folder.judge(pod, status, oom_killed=self._oom_killed(status))
        )
        write_exit(self._folder.exit_record(pod.name), _pid(pod), verdict)
        self._folder.clear_scratch(pod)
        return dataclasses.replace(
            pod,
            phase=Phase.ENDED,
            exit_code=verdict.exit_code,
            cause=verdict.cause,
            detail=verdict.detail,
        )

    def _oom_killed(self, status: int | None) -> bool:
        """Whether the kernel's count of processes killed for memory has grown with this kill."""
        if status != -signal.SIGKILL:
            return False
        before, self._oom_kills = self._oom_kills, oom_kills()
        return self._oom_kills > before


def _pid(pod: Pod) -> int:
    assert pod.pid is not None, "a pod of this platform is a process"
    return pod.pid


def _environment(spec: PodSpec) -> dict[str, str]:
    own = {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    return {**own, **spec.env, POD: spec.name}


async def _read_to_end(pipe: int) -> str:
    """What the launch says before it closes the pipe; all of it arrives at once."""
    try:
        await readable(pipe)
        return os.read(pipe, 4096).decode()
    finally:
        os.close(pipe)
