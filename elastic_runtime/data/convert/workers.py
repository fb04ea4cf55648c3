"""Shards written by several processes, each on a pipe of its own.

The death of either side is the end of the pipe for the other: no process outlives the conversion, however
that ends. Answers come in the order of the shards, so the first bad row is the one that is told.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Self

from elastic_runtime.data.convert.shard import Shard, Written
from elastic_runtime.errors import ElasticError

Work = Callable[[Shard], Written]


class Workers:
    """Up to `limit` processes that do the same work, started as they are needed; this one if one will do."""

    def __init__(self, work: Work, limit: int) -> None:
        self._work, self._limit = work, limit
        self._spawn = multiprocessing.get_context("spawn")
        self._processes: dict[Connection, multiprocessing.process.BaseProcess] = {}
        self._idle: list[Connection] = []
        self._busy: dict[Connection, int] = {}
        self._answers: dict[int, Written | ElasticError] = {}

    def run(self, shards: Iterable[Shard]) -> Iterator[Written]:
        """Write them all; a shard is taken from the iterable when there is somebody to write it."""
        remaining = iter(shards)
        first = list(itertools.islice(remaining, 2))
        every = itertools.chain(first, remaining)
        if self._limit == 1 or len(first) < 2:
            yield from map(self._work, every)
            return
        told = 0
        for number, shard in enumerate(every):
            self._give(number, shard)
            while told in self._answers:
                yield self._answer(told)
                told += 1
        while self._busy or self._answers:
            while told not in self._answers:
                self._collect()
            yield self._answer(told)
            told += 1

    def _give(self, number: int, shard: Shard) -> None:
        if not self._idle and len(self._processes) < self._limit:
            self._start()
        while not self._idle:
            self._collect()
        pipe = self._idle.pop()
        try:
            pipe.send(shard)
        except OSError:
            raise self._died(pipe) from None
        self._busy[pipe] = number

    def _start(self) -> None:
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=_serve, args=(theirs, self._work), daemon=True)
        resource_tracker.ensure_running()  # or its start, as part of this one, would end the blocking
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: Ctrl-C is the parent's matter
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        theirs.close()
        self._processes[ours] = process
        self._idle.append(ours)

    def _collect(self) -> None:
        for pipe in wait(list(self._busy)):
            assert isinstance(pipe, Connection)
            try:
                answer = pipe.recv()
            except (EOFError, OSError):
                raise self._died(pipe) from None
            self._answers[self._busy.pop(pipe)] = answer
            self._idle.append(pipe)

    def _answer(self, number: int) -> Written:
        answer = self._answers.pop(number)
        if isinstance(answer, ElasticError):
            raise answer
        return answer

    def _died(self, pipe: Connection) -> ElasticError:
        process = self._processes[pipe]
        process.join()
        remedy = "with -9 it was probably memory: use fewer --processes or fewer --records_per_file"
        return ElasticError(f"a converting process died with exit code {process.exitcode}", remedy=remedy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for pipe, process in self._processes.items():
            pipe.close()
            if kind is not None:
                process.terminate()
            process.join()


def _serve(pipe: Connection, work: Work) -> None:
    while True:
        try:
            shard = pipe.recv()
        except (EOFError, OSError):
            return
        answer: Written | ElasticError
        try:
            answer = work(shard)
        except ElasticError as error:
            answer = error
        try:
            pipe.send(answer)
        except OSError:
            return
