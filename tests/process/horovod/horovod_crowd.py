"""Processes that form Horovod worlds, and the rendezvous they meet at: Horovod's own key-value server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer

PROGRAM = Path(__file__).with_name("horovod_member.py")
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "HOROVOD_LOG_LEVEL": "fatal", "TF_NUM_INTRAOP_THREADS": "1"}
STARTING = 120.0  # TensorFlow is imported, perhaps on a machine with much else to do
PATIENCE = 75.0  # for what takes a second; gloo's own timeout is longer


@dataclass(frozen=True)
class Answer:
    value: Any
    error: str | None
    seconds: float


class Member:
    """One process."""

    def __init__(self) -> None:
        self._orders, theirs = Pipe()
        self._calls = 0
        command = [sys.executable, str(PROGRAM), str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=os.environ | QUIET)
        theirs.close()

    def tell(self, name: str, **arguments: Any) -> None:
        self._calls += 1
        self._orders.send((self._calls, name, arguments))

    def answer(self, patience: float = PATIENCE) -> Answer:
        """The answer to the last call; those that a test did not ask for are passed over."""
        while True:
            assert self._orders.poll(patience), f"no answer within {patience} s"
            call, *answer = self._orders.recv()
            if call == self._calls:
                return Answer(*answer)

    def waits(self, moment: float = 0.5) -> bool:
        """Whether it is still in its call a moment from now."""
        return not self._orders.poll(moment)

    def do(self, name: str, **arguments: Any) -> Any:
        """Call and value, where no error is expected."""
        self.tell(name, **arguments)
        return self.value()

    def value(self) -> Any:
        answer = self.answer()
        assert answer.error is None, answer.error
        return answer.value

    def abort(self) -> None:
        self._orders.send((0, "abort", {}))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """Stop it, and wait until it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def unsent(self) -> int:
        """The bytes in its connections that their other ends have not taken."""
        process = Path(f"/proc/{self.process.pid}")
        sockets = {os.readlink(file)[8:-1] for file in process.glob("fd/*") if "socket" in os.readlink(file)}
        connections = (line.split() for line in (process / "net/tcp").read_text().splitlines()[1:])
        return sum(int(fields[4].partition(":")[0], 16) for fields in connections if fields[9] in sockets)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._orders.close()


class Rendezvous:
    """A key-value server for one world of `size`; what a member needs to find it."""

    def __init__(self, size: int, *, timeout: int = 90) -> None:
        self.size, self._timeout, self._server = size, timeout, RendezvousServer()
        self._port = self._server.start()
        hosts = ",".join(f"member{rank}:1" for rank in range(size))
        self._server.init(get_host_assignments(parse_hosts(hosts), size))

    def env(self, rank: int) -> dict[str, str]:
        return settings(rank, self.size, self._port, self._timeout)

    def stop(self) -> None:
        self._server.stop()


def settings(rank: int, size: int, port: int, timeout: int) -> dict[str, str]:
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_HOSTNAME": f"member{rank}",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(timeout),
        "HOROVOD_CYCLE_TIME": "5",
    }


class Crowd:
    """Three processes at the beginning of every test; those that a test kills are replaced in the next."""

    def __init__(self) -> None:
        self.members: list[Member] = []

    def complete(self) -> list[Member]:
        self.members = [member for member in self.members if member.process.poll() is None]
        self.members += [Member() for _ in range(3 - len(self.members))]
        for member in self.members:
            member.tell("open_files")
        for member in self.members:
            member.answer(STARTING)
        return self.members

    def end(self) -> None:
        for member in self.members:
            member.end()


def form(members: list[Member], *, timeout: int = 90) -> None:
    """A new world of these members, the first of them as rank 0."""
    rendezvous = Rendezvous(len(members), timeout=timeout)
    for rank, member in enumerate(members):
        member.tell("init", env=rendezvous.env(rank))
    assert [member.value() for member in members] == [(rank, len(members)) for rank in range(len(members))]
    rendezvous.stop()


def stopped_while_receiving(sender: Member, receiver: Member) -> None:
    """Stop the receiver of a message that is larger than what connections hold, in the middle of it."""
    for _ in range(int(PATIENCE / 0.1)):
        receiver.stop()
        if sender.unsent() > 1 << 20:
            return
        receiver.signal(signal.SIGCONT)
        assert sender.waits(0.1)
    raise AssertionError("no large message was under way")


def all_do(members: list[Member], name: str, **arguments: Any) -> list[Any]:
    """The same call of all of them; their values."""
    for member in members:
        member.tell(name, **arguments)
    return [member.value() for member in members]
