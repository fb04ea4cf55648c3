"""Errors that a user can cause, told in one line: what is wrong, where, and what to do about it.

Everything that is not an `ElasticError` is a defect of ours and may crash loudly. The command line turns an
`InputError` into exit code 2, an `Unavailable` into 69 and any other `ElasticError` into exit code 1.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ElasticError(Exception):
    """Something the user can understand and act upon."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        cure = f" ({self.remedy})" if self.remedy else ""
        return f"{place}{self.what}{cure}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.remedy)


class Unavailable(ElasticError):
    """Something that the work needs is away or overloaded: the same attempt may succeed in a moment.

    Its exit code (sysexits: EX_UNAVAILABLE) is none of a job's verdicts, so an engine may run the step again.
    """

    exit_code = 69


class InputError(ElasticError):
    """Bad input, found before anything was started or changed."""

    exit_code = 2


def _rebuild(kind: type[ElasticError], what: str, where: str, remedy: str) -> ElasticError:
    return kind(what, where=where, remedy=remedy)


def installing(extras: str) -> str:
    """What brings these parts of the package; its name alone would not, for PyPI has another of that name."""
    return f"in a checkout of ElasticDL: pip install '.[{extras}]'"


def nearest(name: str, known: Iterable[str]) -> str:
    """Points to the nearest valid name, `did you mean 'x'?`, or lists all if nothing is near."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
