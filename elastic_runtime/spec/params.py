"""`model_params` and `data_reader_params`: keyword arguments written as text, read without `eval`.

A value is a Python literal (`3`, `0.5`, `[1, 2]`, `"a b"`, `None`), `true` or `false`; anything else is the
text as it stands.
"""

from __future__ import annotations

import ast

from elastic_runtime.errors import InputError
from elastic_runtime.spec.pairs import parameters

_WORDS = {"true": True, "false": False}


def parse_params(text: str) -> dict[str, object]:
    """`a=1; b=two` as keyword arguments: `{"a": 1, "b": "two"}`."""
    found = parameters(text)
    for name in found:
        if not name.isidentifier():
            raise InputError(f"{name!r} cannot be the name of an argument", remedy="write a=1; b=2")
    return {name: _value(value) for name, value in found.items()}


def _value(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return text
