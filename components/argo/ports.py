"""What goes in and out of a component, as Argo has to be told, read from the KFP component.

Argo knows texts and files. So each port is either a parameter, with its default as text and the words it may
be, or an artifact, with the name of its file or folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import docstring_parser

from elastic_runtime.steps.options import of_a_step

_FILES = {"Metrics": ".json", "ClassificationMetrics": ".json", "HTML": ".html", "Markdown": ".md"}
"""Artifacts that are one file; Argo shows one whose name has a known ending. Others are folders."""
_NOT_HERE = ("TaskConfig",)
RESULT = "Output"
"""KFP's name for the one result of a function."""
RESULTS = {"build_image": "image", "clean_up": "pods", "convert": "records", "predict": "records"}
_WORDS: dict[str, tuple[str, ...]] = {"on_error": ("fail", "skip")}
_TRUTH = ("true", "false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One input or output."""

    name: str
    text: str
    default: str | None = None
    """None: has to be given."""
    words: tuple[str, ...] = ()
    """All that it may be, if that is only some."""
    file: str = ""
    """Of an artifact."""
    option: str = ""
    """What the step's command line calls it."""


def inputs(component: Any) -> list[Port]:
    """The inputs of a KFP component."""
    texts = _texts(component)
    words = _WORDS
    if component.python_func.__name__ == "train":  # others mean something else by some of these names
        words = words | {flag.name: flag.choices for flag in of_a_step()}
    return [
        _input(name, port, texts.get(name, ""), words.get(name, ()))
        for name, port in (component.component_spec.inputs or {}).items()
        if port.type not in _NOT_HERE
    ]


def outputs(component: Any) -> Iterator[Port]:
    """The outputs of a KFP component."""
    texts, step = _texts(component), component.python_func.__name__
    for name, port in (component.component_spec.outputs or {}).items():
        own = RESULTS.get(step, "result") if name == RESULT else name
        option = "result" if name == RESULT else name
        text = texts.get(name) or port.description or ""
        yield Port(name=own, text=text, file=_file(own, port), option=option)


def _input(name: str, port: Any, text: str, words: tuple[str, ...]) -> Port:
    if port.type == "Boolean":
        words = _TRUTH
    default = _text(port.default) if port.optional else None
    if words and default is not None and default not in words:
        words = (default, *words)
    return Port(name=name, text=text, default=default, words=words, file=_file(name, port), option=name)


def _file(name: str, port: Any) -> str:
    """The name of an artifact's file or folder; parameters have none."""
    kind = str(port.type)
    if not kind.startswith("system."):
        return ""
    return name + _FILES.get(kind.removeprefix("system.").partition("@")[0], "")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _texts(component: Any) -> dict[str, str]:
    """What the docstring says of each port; of a single result, under KFP's name for it."""
    found = docstring_parser.parse(component.python_func.__doc__)
    texts = {port.arg_name: _line(port.description) for port in found.params}
    if found.returns is not None:
        texts[RESULT] = _line(found.returns.description)
    return texts


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
