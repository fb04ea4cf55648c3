"""What an error means: for the work it befell, for whoever reads of it, and for the worker that it ends."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from elastic_runtime.errors import ElasticError, Unavailable
from elastic_runtime.platform.pods import EXIT_ERROR, EXIT_OUT_OF_MEMORY
from elastic_runtime.worker.trainers.base import SnapshotLost

NO_MEMORY = ("failed to map segment", "Cannot allocate memory", "bad_alloc", "ResourceExhaustedError")
"""How libraries, the kernel, C++ and TensorFlow say it; none of them by a MemoryError."""


class NotFoundHere(ElasticError):
    """Data that the master has found cannot be found from this worker's place: from another it may."""


@dataclass(frozen=True, slots=True)
class End:
    """How a worker ends by an error; `fatal` if another worker would end likewise."""

    error: str
    code: int = EXIT_ERROR
    fatal: bool = False
    trace: str = ""


def end_by(problem: Exception) -> End:
    """The end that an error is to a worker."""
    error = line_of(problem)
    if isinstance(problem, MemoryError):
        return End(f"out of memory: {problem}", EXIT_OUT_OF_MEMORY)
    if not isinstance(problem, ElasticError) and any(sign in error for sign in NO_MEMORY):
        return End(f"out of memory: {error}", EXIT_OUT_OF_MEMORY)
    return End(error, fatal=is_final(problem), trace=trace_of(problem))


def is_final(problem: Exception) -> bool:
    """Whether another attempt is sure to fail likewise: damaged data, a feed without end, a misfit.

    The user's code may do better next time, and so may a disk, a network or a store.
    """
    from elastic_runtime.model.user_code import UserCodeError

    passing = isinstance(problem, UserCodeError | SnapshotLost | NotFoundHere) or is_of_storage(problem)
    return isinstance(problem, ElasticError) and not passing


def is_of_storage(problem: BaseException) -> bool:
    """Whether the machine or a store did not do what was asked of it."""
    return any(isinstance(cause, OSError | Unavailable) for cause in _causes(problem))


def line_of(problem: Exception) -> str:
    """The error in one line."""
    return str(problem) if isinstance(problem, ElasticError) else f"{type(problem).__name__}: {problem}"


def trace_of(problem: Exception) -> str:
    """The user's part of the traceback, where it is the user's error; none for errors that say it all."""
    told: str | None = getattr(problem, "traceback_text", None)
    if told is not None:
        return told
    return "" if isinstance(problem, ElasticError) else "".join(traceback.format_exception(problem))


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__
