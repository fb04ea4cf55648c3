"""Where a model module is: the tutorials write `--model_def` as dotted symbol, as folder and as file.

A folder or file that exists wins over the dotted reading. Nothing is imported here, so a wrong name is found
out before any process starts.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from elastic_runtime.errors import InputError

_MOST_FILES_LOOKED_AT = 2000


class ModelPath(NamedTuple):
    """A Python file, and the name of the model in it; None leaves the name to the contract."""

    file: Path
    symbol: str | None


def resolve(model_zoo: str, model_def: str) -> ModelPath:
    """The module that `model_def` names in `model_zoo` (empty: the current folder)."""
    zoo = Path(model_zoo or ".")
    if not zoo.is_dir():
        raise InputError(f"there is no folder {model_zoo}", where="--model_zoo", remedy=_folder_near(zoo))
    looked_for = []
    for candidate in _candidates(zoo, model_def):
        if candidate.file.is_file():
            return candidate
        looked_for.append(candidate.file)
    names = " nor ".join(dict.fromkeys(str(path) for path in looked_for))
    raise InputError(
        f"{model_def!r}: there is no {names}",
        where="--model_def",
        remedy=_file_near(zoo, model_def, looked_for),
    )


def _candidates(zoo: Path, model_def: str) -> Iterator[ModelPath]:
    is_path = "/" in model_def or model_def.endswith(".py")
    for place in (Path(model_def), zoo / model_def):
        if place.is_dir():
            yield ModelPath(place / f"{place.resolve().name}.py", None)
        elif is_path or place.is_file():
            yield ModelPath(place if place.suffix == ".py" else place.with_name(place.name + ".py"), None)
    if not is_path:
        *folders, symbol = model_def.split(".")
        if folders:
            yield ModelPath(zoo.joinpath(*folders).with_suffix(".py"), symbol)
        yield ModelPath(zoo.joinpath(*folders, f"{symbol}.py"), None)


def _file_near(zoo: Path, model_def: str, looked_for: Iterable[Path]) -> str:
    places = {path.parent for path in looked_for if path.parent.is_dir()} | {zoo}
    files: dict[str, None] = {}
    for place in sorted(places):
        for path in place.rglob("*.py"):
            if len(files) >= _MOST_FILES_LOOKED_AT:
                break
            if path.name != "__init__.py":
                files[str(path)] = None
    wanted = [str(path) for path in looked_for] or [model_def]
    close = [match for path in wanted for match in difflib.get_close_matches(path, files, n=1, cutoff=0.5)]
    if close:
        return f"the nearest is {close[0]}"
    return (
        f"{zoo} holds no Python file"
        if not files
        else "give folder.file.symbol, or the path of a Python file"
    )


def _folder_near(zoo: Path) -> str:
    parent = zoo.parent if zoo.parent.is_dir() else Path(".")
    folders = [str(path) for path in parent.iterdir() if path.is_dir()]
    close = difflib.get_close_matches(str(zoo), folders, n=1)
    return f"did you mean {close[0]}?" if close else "give the folder that holds the model modules"
