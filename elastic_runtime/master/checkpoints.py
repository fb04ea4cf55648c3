"""Writes a checkpoint when one is due: the model, and the ledger as of the same version, in one folder.

The folder is made under a temporary name and renamed when everything is in it, so a checkpoint is whole or
not there. Saving never holds up the training; if it cannot keep pace, versions in between are passed over
and that is said. A checkpoint that cannot be written (a full disk) is a warning: the job is worth more than
the checkpoint.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import shutil
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.master.home import Home, Origin
from elastic_runtime.ps import checkpoint

log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of a job: what there is, what is being written, what is due next."""

    def __init__(
        self,
        directory: Path,
        *,
        run: Callable[[], str],
        era: Callable[[], int],
        newest: Callable[[], int | None],
        keep: int,
        initial: str,
        ledger_at: Callable[[int], Mapping[str, Any]],
        saved: Callable[[int, float, int], Awaitable[None]],
        passed_over: Callable[[int], None],
    ) -> None:
        self._directory, self._run, self._era, self._newest = directory, run, era, newest
        self._keep, self._initial = keep, initial
        self._ledger_at, self._saved, self._passed_over = ledger_at, saved, passed_over
        self._due: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._told_slow = False

    def tidy(self) -> None:
        """Remove what a master that died while it saved has left; nobody is saving yet."""
        checkpoint.remove_stale(self._directory)

    def find(self) -> Origin | None:
        """The newest state there is to begin from: this job's own, else the one it was told to start from.

        One that is completed meanwhile may send older ones away: then it is looked for again.
        """
        while True:
            own = self._newest()
            try:
                found = self._own(own) if own is not None else None
            except ElasticError:
                if own == self._newest():
                    raise
            if own == self._newest():
                return found or (checkpoint_origin(Path(self._initial)) if self._initial else None)

    def _own(self, upto: int) -> Origin | None:
        newest = checkpoint.newest(self._directory, upto=upto, run=self._run())
        if newest is None:
            return None
        return Origin("checkpoint", _version(newest), str(newest), _read(newest / "ledger.json"))

    async def go_back(self, version: int) -> None:
        """The model is back at this version. What was saved beyond, and not put on record, is not its future.

        Else it would be counted among the newest, and be taken for one of them.
        """
        known = max(version, self._newest() or 0)
        try:
            await asyncio.to_thread(checkpoint.remove_beyond, self._directory, known, run=self._run())
        except ElasticError as problem:
            log.warning("a checkpoint that was given up stays: %s", problem)

    def request(self, version: int, home: Home) -> None:
        """A snapshot of `version` was taken for a checkpoint: write it next."""
        if self._due is not None:
            self._passed_over(self._due)
            if not self._told_slow:
                self._told_slow = True
                log.warning(
                    "checkpoints are due faster than they can be written: some versions are passed over"
                )
        self._due = version
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_all(home))

    async def settled(self) -> None:
        """Wait until what is due has been written."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def close(self) -> None:
        """Give up what is being written: nothing of it is left."""
        if self._task is not None:
            self._task.cancel()
        await self.settled()

    async def save_now(self, home: Home) -> int | None:
        """Write the present state; None if it could not be."""
        async with self._writing:
            try:
                version = await home.snapshot()
            except ElasticError as problem:
                log.warning("no checkpoint could be taken: %s", problem)
                return None
            if not await self._write(version, home):
                return None
            if self._due is not None and self._due <= version:  # later it would take the newest one's place
                self._passed_over(self._due)
                self._due = None
            return version

    async def _write_all(self, home: Home) -> None:
        try:
            while self._due is not None:
                async with self._writing:
                    if self._due is not None:
                        version, self._due = self._due, None
                        await self._write(version, home)
        except ElasticError as problem:  # the checkpoint is there, but not in the journal, or older ones stay
            log.warning("%s", problem)

    async def _write(self, version: int, home: Home) -> bool:
        began, era = time.monotonic(), self._era()
        final = self._directory / f"version-{version}"
        making = self._directory / f".version-{version}.{uuid.uuid4().hex[:8]}"
        try:
            making.mkdir(parents=True)
            await home.save(version, making)
            ledger = dict(self._ledger_at(version))
            await asyncio.to_thread(checkpoint.finish, making, final, version, ledger, run=self._run())
            if era != self._era():
                await asyncio.to_thread(shutil.rmtree, final)
                raise ElasticError("the model went back meanwhile")
        except asyncio.CancelledError:
            shutil.rmtree(making, ignore_errors=True)
            raise
        except (ElasticError, OSError, TimeoutError) as problem:
            log.warning(
                "the checkpoint of version %d could not be written: %s",
                version,
                problem or "no answer in time",
            )
            await asyncio.to_thread(shutil.rmtree, making, ignore_errors=True)
            self._passed_over(version)
            return False
        size = sum(f.stat().st_size for f in final.iterdir())
        await self._saved(version, time.monotonic() - began, size)
        if self._keep:
            prune = functools.partial(checkpoint.prune, self._directory, self._keep)
            await asyncio.to_thread(prune, upto=version, run=self._run())
        return True


def checkpoint_origin(folder: Path) -> Origin:
    """A checkpoint of some other job, to begin from: its ledger is not ours."""
    return Origin("checkpoint", _version(folder), str(folder.absolute()))


def _version(folder: Path) -> int:
    return int(_read(folder / "checkpoint.json")["version"])


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        remedy = "name a version-N folder that holds checkpoint.json"
        raise InputError(f"not a whole checkpoint: {problem}", where=str(path), remedy=remedy) from None
    return found
