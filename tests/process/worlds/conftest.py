"""Real processes that form worlds through our own store, on real Horovod."""

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

    def __init__(self, **options: Any) -> None:
        command = [sys.executable, "-m", "tests.process.worlds.member", json.dumps(options)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._noise = threading.Thread(target=self._read_noise, daemon=True)
        self._noise.start()
        self.noise = ""

    def _read_noise(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.noise += line

    def send(self, do: str, **order: Any) -> None:
        """Give an order without waiting for what comes of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What came of the oldest order not answered yet."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the member has ended:\n{self.noise[-4000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def do(self, do: str, **order: Any) -> dict[str, Any]:
        """Give an order and wait."""
        self.send(do, **order)
        return self.answer()

    def kill(self) -> None:
        """With -9."""
        self.process.kill()
        self.process.wait()


class Worlds:
    """Makes members and has them come together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._world = loop, 0
        self._members: list[Driven] = []
        self._stores: list[Store] = []

    def members(self, count: int, **options: Any) -> list[Driven]:
        """So many processes, ready to come together; each begins with other weights."""
        first = len(self._members)
        made = [Driven(**{"seed": first + n + 1, **options}) for n in range(count)]
        self._members += made
        for member in made:
            assert member.answer()["ready"]
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
        """End everything that is left."""
        for member in self._members:
            member.kill()
        for store in self._stores:
            self._loop.call_soon_threadsafe(store.close)


@pytest.fixture
def worlds() -> Iterator[Worlds]:
    """A place where members meet."""
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("Horovod is not installed: make setup tells why")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = Worlds(loop)
    yield made
    made.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
