"""From a command line to a `JobSpec`, for every command and process alike.

All spellings of the tutorials are read: `--x=v`, `--x v`, `-` for `_`, a bare `--switch`. What cannot be
understood is an `InputError` that names the nearest thing that can.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from elastic_runtime.errors import InputError
from elastic_runtime.spec import aliases
from elastic_runtime.spec.flags import COMMANDS, Command, flags
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.usage import PROGRAMS

_ALL = {flag.name: flag for flag in flags(JobSpec)}
_MAY_BE_BARE = (
    {name for name, flag in _ALL.items() if flag.is_switch} | set(aliases.GONE) | set(aliases.REFUSED)
)
_OLDER = {*aliases.RENAMED, *aliases.GONE, *aliases.REFUSED, *aliases.TRANSLATED}
_SHORT = {"-o": "--dry_run_format", "-n": "--namespace"}  # as kubectl's users type them
_DATA = ("training_data", "validation_data", "prediction_data")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A job as it was asked for, and what the user should be told about it."""

    spec: JobSpec
    notices: tuple[str, ...]


def parse(command: Command, argv: Sequence[str]) -> Parsed:
    """What `argv` asks of `command`. Nothing of it is passed over in silence."""
    given, notices = _read(argv, command)
    translated = aliases.translate(given)
    notices.extend(translated.notices)
    for name in translated.values:
        if name not in _ALL or command not in _ALL[name].extra.takes:
            raise _not_taken(name, command)
    _require(translated.values, command)
    taken = [flag for flag in _ALL.values() if command in flag.extra.by_command]
    values = {flag.name: flag.default(command) for flag in taken} | translated.values
    of_the_job: list[str] = []
    spec = JobSpec.make(values, of_the_job)
    if command not in ("worker", "ps"):  # the master has said it already
        notices.extend(of_the_job)
    return Parsed(spec, tuple(notices))


def _read(argv: Sequence[str], command: Command) -> tuple[dict[str, str], list[str]]:
    """The options by name, as typed, and a notice for each that was given twice."""
    given: dict[str, str] = {}
    notices = []
    rest = list(reversed(argv))
    while rest:
        name, value = _next(rest, command)
        if given.get(name, value) != value:
            notices.append(f"--{name} is given twice: {value} is used, {given[name]} is not")
        given[name] = value
    return given, notices


def _next(rest: list[str], command: Command) -> tuple[str, str]:
    token = rest.pop()
    typed, equals, value = _SHORT.get(token, token).partition("=")
    name = typed.removeprefix("--").replace("-", "_")
    if not typed.startswith("--") or not name:
        guess = typed.lstrip("-").replace("-", "_")
        remedy = f"did you mean --{guess}?" if guess in _ALL else "options are written --name=value"
        raise InputError(f"unexpected argument {token!r}", remedy=remedy)
    if name not in _ALL and name not in _OLDER:
        raise _not_taken(name, command)
    if equals:
        return name, value
    if rest and not rest[-1].startswith("--") and rest[-1] not in _SHORT:
        return name, rest.pop()
    if name in _MAY_BE_BARE:
        return name, "true"
    raise InputError(f"--{name} needs a value", remedy=f"give {_ALL[name].form}" if name in _ALL else "")


def _not_taken(name: str, command: Command) -> InputError:
    if name in _ALL:
        takers = [other for other in COMMANDS if other in _ALL[name].extra.takes]
        return InputError(
            f"{command} does not take --{name}", remedy=f"it is an option of {', '.join(takers)}"
        )
    ours = [other for other, flag in _ALL.items() if command in flag.extra.takes]
    close = difflib.get_close_matches(name, [*ours, *_OLDER], n=1)
    remedy = f"did you mean --{close[0]}?" if close else f"`{PROGRAMS[command][0]} --help` shows all"
    return InputError(f"unknown option --{name}", remedy=remedy)


def _require(values: dict[str, str], command: Command) -> None:
    missing = [flag for flag in _ALL.values() if command in flag.extra.required and not values.get(flag.name)]
    if missing:
        names = ", ".join(flag.option for flag in missing)
        raise InputError(f"{command} needs {names}", remedy=f"{missing[0].name} is {missing[0].text}")
    if command == "master" and not any(values.get(name) for name in _DATA):
        raise InputError(
            "master needs data", remedy="give --training_data, --validation_data or --prediction_data"
        )
