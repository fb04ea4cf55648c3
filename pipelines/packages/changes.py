"""What the words of `--param` and `--set` ask for, done to every package that it concerns.

A pipeline's two forms have most names in common, and some that only one has: those change that one alone, and
are refused once it is known that the other is what runs. Nothing that was typed is ignored.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from elastic_runtime.errors import InputError, nearest
from pipelines.packages import Change, Package


def read(parameters: Sequence[str], inputs: Sequence[str]) -> list[Change]:
    """What was typed, not yet compared with what there is."""
    return [*map(_parameter, parameters), *map(_input, inputs)]


def apply(changes: Sequence[Change], packages: Sequence[Package]) -> None:
    """Change each package that has what is meant; at least one has to."""
    for change in changes:
        meant = [package for package in packages if _has(package, change)]
        if not meant:
            raise _unknown(change, packages)
        for package in meant:
            package.change(change)


def refuse_others(changes: Sequence[Change], package: Package) -> None:
    """Raise if one of them is not for this package, the one that is taken."""
    for change in changes:
        if not _has(package, change):
            what = f"{package.form}, which is what would run, has no such thing"
            raise InputError(what, where=change.option, remedy="name another --engine, or leave it out")


def refuse_gaps(package: Package, known: Container[str] = ()) -> None:
    """Raise if a parameter that has no default was not given; those `known` are by other means."""
    missing = {name: text for name, text in package.missing().items() if name not in known}
    if missing:
        told = (f"{name} has to be given" + (f": {text}" if text else "") for name, text in missing.items())
        remedy = f"write {' '.join(f'--param {name}=VALUE' for name in missing)}"
        raise InputError("; ".join(told).rstrip("."), where="--param", remedy=remedy)


def of_this_machine(
    here: Mapping[str, Any], parameters: Mapping[str, Any], typed: Sequence[Change]
) -> list[Change]:
    """Of what differs here, the inputs of steps that nobody has typed; `{name}` in a text is a parameter."""
    texts = {name: text.format(**parameters) for name, text in here.items() if "." in name}
    named = {(change.step, change.name) for change in typed}
    found = [_input(f"{name}={text}") for name, text in texts.items()]
    return [change for change in found if (change.step, change.name) not in named]


def _has(package: Package, change: Change) -> bool:
    return change.name in package.names(change.step)


def _unknown(change: Change, packages: Sequence[Package]) -> InputError:
    steps = {step for package in packages for step in package.steps()}
    names = {name for package in packages for name in package.names(change.step)}
    if not change.step:
        what, known = f"the pipeline has no parameter {change.name!r}", names
    elif change.step in steps:
        what, known = f"step {change.step!r} has no input {change.name!r}", names
    else:
        what, known = f"the pipeline has no step {change.step!r}", steps
    asked = change.step if known is steps else change.name
    return InputError(what, where=change.option.split()[0], remedy=nearest(asked, known))


def _parameter(word: str) -> Change:
    name, is_pair, text = word.partition("=")
    if not is_pair:
        raise InputError(f"got {word!r}", where="--param", remedy="write --param name=value")
    return Change("", name, text)


def _input(word: str) -> Change:
    name, is_pair, text = word.partition("=")
    step, has_step, name = name.partition(".")
    if not is_pair or not has_step:
        raise InputError(f"got {word!r}", where="--set", remedy="write --set step.input=value")
    return Change(step, name, text)
