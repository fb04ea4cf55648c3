"""A step as a command line, for engines that know only containers: what goes in and out is paths and texts.

`STEP --name=value ...`: an input or output is the path it lies at, a result the file it is written to (a step
with one result calls it `result`), and everything else a value. What is known of a folder beyond its files is
kept in it, in `KEPT`, so that it comes along wherever an engine takes the folder.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.spec.entry import undisturbed
from elastic_runtime.spec.flags import flags
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.steps.artifact import Artifact, Folder
from elastic_runtime.steps.carry_out import carry_out, ended_by
from elastic_runtime.steps.options import NOT_OF_A_STEP

STEPS = ("build_image", "clean_up", "convert", "evaluate", "predict", "train")
KEPT = "_artifact.json"
_HELP = ("--help", "-h")
_TRUTH = {"true": True, "false": False}
_FORM = {int: "a whole number", float: "a number", bool: "true or false"}


def main(words: Sequence[str]) -> int:
    """Run the step that these words ask for; if it does not succeed, the process ends and says why."""
    try:
        if words and words[0] in _HELP:
            sys.stdout.write(
                f"usage: python -m elastic_runtime.steps STEP --name=value ...\nsteps: {', '.join(STEPS)}\n"
            )
            return 0
        step = _step(words[0] if words else "")
        if {*_HELP} & {*words}:
            sys.stdout.write("\n".join([f"options of {words[0]}:", *_Ports(step).names()]) + "\n")
            return 0
        given = _Ports(step).read(words[1:])
    except InputError as error:
        raise ended_by(error) from None
    result = carry_out(step, given.arguments)
    for artifact in given.artifacts:
        artifact.keep()
    for port, file in given.results.items():
        value = result if port == "result" else getattr(result, port)
        write_atomically(Path(file), value if isinstance(value, str) else json.dumps(value))
    return 0


def _step(name: str) -> Callable[..., Any]:
    if name not in STEPS:
        what = f"there is no step {name!r}" if name else "no step is named"
        raise InputError(what, remedy=nearest(name, STEPS))
    with undisturbed():
        found: Callable[..., Any] = getattr(importlib.import_module(f"elastic_runtime.steps.{name}"), name)
    return found


class Kept(Folder):
    """A place on this machine that remembers where its content really is, and what is known of it."""

    def __init__(self, path: str) -> None:
        self._file = Path(path, KEPT)
        self._found = _read(self._file)
        elsewhere = self._found.get("uri", "")
        super().__init__(elsewhere or path, dict(self._found.get("metadata", {})))
        self.place = path

    def keep(self) -> None:
        """Write down what a step has found out; a file has no room for it."""
        elsewhere = {"uri": self.uri} if self.uri != self.place else {}
        known = {**elsewhere, "metadata": self.metadata} if elsewhere or self.metadata else {}
        if known != self._found and not Path(self.place).is_file():
            Path(self.place).mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(known, indent=2) + "\n")


class _Given(typing.NamedTuple):
    """A command line, understood."""

    arguments: dict[str, Any]
    artifacts: list[Kept]
    results: dict[str, str]


class _Ports:
    """What may be given to a step, by name: its own parameters, and where it takes them, a job's options."""

    def __init__(self, step: Callable[..., Any]) -> None:
        hints = typing.get_type_hints(step)
        self._results = _results(hints.pop("return", types.NoneType))
        parameters = inspect.signature(step).parameters.values()
        self._kinds = {p.name: _kind(hints[p.name]) for p in parameters if p.kind is p.KEYWORD_ONLY}
        self._needed = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        self._kinds.pop("task_config", None)  # KFP's way of saying what options say
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            options = (flag for flag in flags(JobSpec) if flag.name not in NOT_OF_A_STEP)
            self._kinds = {flag.name: flag.kind for flag in options} | self._kinds

    def read(self, words: Iterable[str]) -> _Given:
        """The arguments that these words amount to; whatever is not understood is an error."""
        texts: dict[str, str] = {}
        for word in words:
            name, is_one, text = word.removeprefix("--").partition("=")
            if not is_one or not word.startswith("--"):
                raise InputError(f"{word!r} is not understood", remedy="write --name=value")
            if name in texts:
                raise InputError("is given twice", where=f"--{name}")
            if name not in self._kinds and name not in self._results:
                raise InputError(f"unknown option --{name}", remedy=nearest(name, self.names()))
            texts[name] = text
        if missing := [f"--{name}" for name in self._needed if not texts.get(name)]:
            raise InputError(f"not given: {', '.join(missing)}")
        results = {name: text for name, text in texts.items() if name in self._results and text}
        values = {n: value_of(n, text, self._kinds[n]) for n, text in texts.items() if n in self._kinds}
        arguments = {name: value for name, value in values.items() if not self._is_absent(name, value)}
        return _Given(arguments, [a for a in arguments.values() if isinstance(a, Kept)], results)

    def _is_absent(self, name: str, value: Any) -> bool:
        """An engine names the place of an optional input even if it has brought none."""
        unbrought = isinstance(value, Kept) and name not in self._needed and not Path(value.place).exists()
        return value is None or unbrought

    def names(self) -> list[str]:
        """As they are written on the command line."""
        return [f"--{name}" for name in (*self._kinds, *self._results)]


def _kind(hint: Any) -> Any:
    """The type without None; an artifact is `Artifact`."""
    parts = [part for part in typing.get_args(hint) if part is not types.NoneType]
    return parts[0] if parts and isinstance(hint, types.UnionType) else hint


def _results(hint: Any) -> tuple[str, ...]:
    return () if hint is types.NoneType else getattr(hint, "_fields", ("result",))


def value_of(name: str, text: str, kind: Any) -> Any:
    """A text as what the step takes; an empty one is none."""
    if kind is Artifact:
        return Kept(text) if text else None
    if kind not in _FORM or not text:
        return text or None
    try:
        value = _TRUTH[text.strip().lower()] if kind is bool else kind(text)
        if kind is float and not math.isfinite(value):
            raise ValueError(text)
    except (ValueError, KeyError):
        raise InputError(f"got {text!r}", where=f"--{name}", remedy=f"give {_FORM[kind]}") from None
    return value


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(file)) from None
    except (ValueError, TypeError) as error:
        raise InputError(f"is not what a step has written: {error}", where=str(file)) from None
