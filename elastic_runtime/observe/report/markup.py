"""Elements of HTML and SVG as strings that are well-formed and escaped by construction.

`el("td", name, class_="pod")` escapes `name` unless it is `Markup` already, so nothing a user named can
become part of the page's structure. What XML cannot carry (control characters, lone surrogates) is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

_UNSAYABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Escaped text."""
    return value if isinstance(value, Markup) else Markup(escape(_UNSAYABLE.sub("\ufffd", value)))


def el(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element; `class_` is `class`, `stroke_width` is `stroke-width`, None leaves an attribute out."""
    named = "".join(
        f' {_name(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None
    )
    return Markup(f"<{name}{named}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Several pieces as one."""
    return Markup("".join(map(text, parts)))


def percent(share: float) -> str:
    """A place along the width, from 0 to 1."""
    return f"{share * 100:.2f}%"


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return text(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
