"""What a model module defines, told from its text: no user code runs, so a wrong name is found at once.

Only names bound at the top of the file are seen, in whatever statement they are bound there. A file that
takes all names of another (`import *`), or makes its own at run time, may hold any name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.spec.flags import flags
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.model_path import resolve

SYMBOLS = (
    "feed",
    "loss",
    "optimizer",
    "eval_metrics_fn",
    "callbacks",
    "custom_data_reader",
    "prediction_outputs_processor",
)
_ANY = "*"
_MAKES_NAMES = ("globals", "vars", "exec", "setattr")


def renamed(spec: JobSpec) -> Mapping[str, str]:
    """The symbols of the contract that the user gives another name."""
    defaults = {flag.name: flag.info.default for flag in flags(JobSpec)}
    return {name: getattr(spec, name) for name in SYMBOLS if getattr(spec, name) != defaults[name]}


def check_symbols(spec: JobSpec) -> None:
    """Refuse a name of the model or of a symbol that its module does not define."""
    path, model = resolve(spec.model_zoo, spec.model_def)
    there = names_in(path)
    if _ANY in there:
        return
    asked = {f"--{option}": name for option, name in renamed(spec).items()}
    for option, name in {"--model_def": model, **asked}.items():
        if name and "." not in name and name not in there:
            shown = sorted(found for found in there if not found.startswith("_"))
            remedy = nearest(name, shown) if shown else "it defines nothing"
            raise InputError(f"no {name} in {path}", where=option, remedy=remedy)


def is_elsewhere(spec: JobSpec) -> bool:
    """Whether the module is not in this image, and may be in that of workers, which is another one."""
    if spec.platform != "kubernetes" or spec.worker_image in ("", spec.image_name):
        return False
    try:
        resolve(spec.model_zoo, spec.model_def)
    except InputError:
        return True
    return False


def has_own_reader(spec: JobSpec) -> bool:
    """Whether the module brings its own reader of data."""
    if "." in spec.custom_data_reader:
        return True
    return spec.custom_data_reader in names_in(resolve(spec.model_zoo, spec.model_def).file)


def names_in(path: Path) -> set[str]:
    """The names that the file binds at its top, with `*` among them if it may bind any."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as problem:
        line = f":{problem.lineno}" if isinstance(problem, SyntaxError) and problem.lineno else ""
        what = problem.msg if isinstance(problem, SyntaxError) else str(problem)
        raise InputError(what, where=f"{path}{line}", remedy="correct the model module") from None
    return set(_bound(tree))


def _bound(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                continue  # what is bound inside is its own affair
            case ast.Lambda():
                continue
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Call(func=ast.Name(id=name)) if name in _MAKES_NAMES:
                yield _ANY
        yield from _bound(child)
