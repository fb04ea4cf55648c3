"""Real processes that form worlds through our own store, on real Horovod.

They start slowly, so that they serve one test after the other; in each test they are members anew.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from elastic_runtime.master.rendezvous import Store


class Driven:
    """A member's process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.process.worlds.member"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._noise = threading.Thread(target=self._read_noise, daemon=True)
        self._noise.start()
        self.noise = ""
        self._unanswered = 0

    def _read_noise(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.noise += line

    def send(self, do: str, **order: Any) -> None:
        """Give an order without waiting for what comes of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.process.stdin.flush()
        self._unanswered += 1

    def answer(self) -> dict[str, Any]:
        """What came of the oldest order not answered yet."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the member has ended:\n{self.noise[-4000:]}"
        self._unanswered -= 1
        answer: dict[str, Any] = json.loads(line)
        return answer

    def do(self, do: str, **order: Any) -> dict[str, Any]:
        """Give an order and wait."""
        self.send(do, **order)
        return self.answer()

    def is_free(self) -> bool:
        """Whether it lives and waits for an order."""
        return self.process.poll() is None and not self._unanswered

    def kill(self) -> None:
        """With -9."""
        self.process.kill()
        self.process.wait()


class Crowd:
    """Processes that are no members now; where there are too few, another is started."""

    def __init__(self) -> None:
        self._free: list[Driven] = []

    def take(self, count: int) -> list[Driven]:
        """So many."""
        self._free += [Driven() for _ in range(count - len(self._free))]
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def give_back(self, members: Sequence[Driven]) -> None:
        """Those that can serve another test stay."""
        ending = [member for member in members if member.is_free()]
        for member in ending:
            member.send("end")
        for member in ending:
            member.answer()
        for member in set(members).difference(ending):
            member.kill()
        self._free += ending

    def end(self) -> None:
        """Of all."""
        for member in self._free:
            member.kill()


class Worlds:
    """Makes members and has them come together."""

    def __init__(self, loop: asyncio.AbstractEventLoop, crowd: Crowd) -> None:
        self._loop, self._crowd, self._world = loop, crowd, 0
        self._members: list[Driven] = []
        self._stores: list[Store] = []

    def members(self, count: int, **options: Any) -> list[Driven]:
        """So many of them, ready to come together; each begins with other weights."""
        first = len(self._members)
        made = self._crowd.take(count)
        self._members += made
        for number, member in enumerate(made, first + 1):
            member.send("new", options={"seed": number, **options})
        for member in made:
            member.answer()
        return made

    def store(self) -> str:
        """Where a new world meets."""
        store = Store()
        port = asyncio.run_coroutine_threadsafe(store.open("127.0.0.1"), self._loop).result(60)
        self._stores.append(store)
        return f"127.0.0.1:{port}"

    def void(self) -> None:
        """The newest world will not come together."""
        self._loop.call_soon_threadsafe(self._stores[-1].void)

    def together(self, members: Sequence[Driven]) -> list[dict[str, Any]]:
        """Let them form a world in this order of ranks."""
        self._world += 1
        store = self.store()
        for rank, member in enumerate(members):
            member.send("enter", world=self._world, rank=rank, size=len(members), store=store)
        return [member.answer() for member in members]

    def close(self) -> None:
        """The test is over."""
        self._crowd.give_back(self._members)
        for store in self._stores:
            self._loop.call_soon_threadsafe(store.close)


@pytest.fixture(scope="session")
def processes() -> Iterator[Crowd]:
    """For all tests."""
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("Horovod is not installed: make setup tells why")
    crowd = Crowd()
    yield crowd
    crowd.end()


@pytest.fixture
def worlds(processes: Crowd) -> Iterator[Worlds]:
    """A place where members meet."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = Worlds(loop, processes)
    yield made
    made.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
