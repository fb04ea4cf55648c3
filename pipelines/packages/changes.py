"""What the words of `--param`, `--set` and `--image` ask for, done to every package that it concerns.

A pipeline's two forms have most names in common, and some that only one has: those change that one alone, and
are refused once it is known that the other is what runs. Where nothing runs it is said which one has them.
Nothing that was typed is ignored.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.image.registry.reference import Reference
from elasticdl_components.image import IMAGE
from pipelines.packages import Change, Package

IMAGE_OPTION = "--image"
Done = dict[str, list[Package]]
"""By what asked for it, the packages that it has changed."""


def read(parameters: Sequence[str], inputs: Sequence[str]) -> list[Change]:
    """What was typed, not yet compared with what there is."""
    return [*map(_parameter, parameters), *map(_input, inputs)]


def apply(changes: Sequence[Change], packages: Sequence[Package]) -> Done:
    """Change each package that has what is meant; at least one has to."""
    done: Done = {}
    for change in changes:
        done[change.option] = [package for package in packages if change.name in package.names(change.step)]
        if not done[change.option]:
            raise _unknown(change, packages)
        for package in done[change.option]:
            package.change(change)
    return done


def run_in(image: str, packages: Sequence[Package]) -> Done:
    """Have the steps run in this image that would run in the components' own; there have to be some."""
    try:
        Reference.parse(image)
    except InputError as error:
        raise InputError(f"{error.where} {error.what}", where=IMAGE_OPTION, remedy=error.remedy) from None
    done = {IMAGE_OPTION: [package for package in packages if package.run_in(image)]}
    if not done[IMAGE_OPTION]:
        what = f"is in place of {IMAGE}, and no step would run in that"
        raise InputError(what, where=IMAGE_OPTION, remedy="name the image where the pipeline does")
    return done


def refuse_others(done: Done, package: Package) -> None:
    """Raise if one of them is not for this package, the one that is taken."""
    for option, packages in done.items():
        if package not in packages:
            lacks = "no step without an image of its choice" if option == IMAGE_OPTION else "no such thing"
            what = f"{package.form}, which is what would run, has {lacks}"
            raise InputError(what, where=option, remedy="name another --engine, or leave it out")


def told_of_one(done: Done, packages: Sequence[Package]) -> Iterator[tuple[str, Package]]:
    """What has changed one of several packages alone, and that one."""
    for option, changed in done.items():
        if len(changed) < len(packages):
            yield option, changed[0]


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
