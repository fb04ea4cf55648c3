"""How an option is declared: once, as a field of `JobSpec`, with all that help and docs say of it.

`flag()` declares one; a group is the class that declares it, and its docstring the group's title. `flags()`
gives the options back in order, for whoever parses, prints or generates them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

Command = Literal["train", "evaluate", "predict", "master", "worker", "ps"]
COMMANDS: tuple[Command, ...] = get_args(Command)
VERBS: tuple[Command, ...] = ("train", "evaluate", "predict")
JOB: tuple[Command, ...] = (*VERBS, "master")
TRAINING: tuple[Command, ...] = ("train", "master")


class Group(BaseModel):
    """Base of every group of options."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _word(cls, value: Any, info: ValidationInfo) -> Any:
        """Let one of a few words be written in any case; an empty one is the default."""
        field = cls.model_fields[info.field_name or ""]
        if get_origin(field.annotation) is not Literal or not isinstance(value, str):
            return value
        if not value:
            return field.default
        return next((word for word in get_args(field.annotation) if word.lower() == value.lower()), value)


@dataclass(frozen=True, slots=True)
class Extra:
    """What a field says of itself beyond its type, default and help text."""

    takes: tuple[Command, ...]
    required: tuple[Command, ...] = ()
    by_command: Mapping[Command, Any] = field(default_factory=dict)
    shown: str = ""
    identity: bool = False


def flag(
    default: Any,
    text: str,
    *,
    takes: tuple[Command, ...] = COMMANDS,
    required: tuple[Command, ...] = (),
    by_command: Mapping[Command, Any] | None = None,
    shown: str = "",
    identity: bool = False,
    **bounds: Any,
) -> Any:
    """Declare an option: its default and help text, the commands that take or require it.

    `by_command` holds defaults that differ for a command, `shown` what the docs show for a default that is
    worked out, `identity` marks what tells one job's work from another's. `bounds` are pydantic's own (`ge`,
    `gt`, `le`).
    """
    extra = Extra(takes, required, by_command or {}, shown, identity)
    info = Field(default, description=text, **bounds)
    info.metadata.append(extra)
    return info


@dataclass(frozen=True, slots=True)
class Flag:
    """One option as the command line and the docs see it."""

    name: str
    group: str
    info: FieldInfo
    extra: Extra

    @property
    def option(self) -> str:
        """As it is typed."""
        return f"--{self.name}"

    @property
    def text(self) -> str:
        """The help text."""
        return self.info.description or ""

    @property
    def is_switch(self) -> bool:
        """Whether it may stand bare, meaning true."""
        return self.kind is bool

    @property
    def kind(self) -> Any:
        """The type of its value: bool, int, float, str or a Literal."""
        annotation: Any = self.info.annotation
        if get_origin(annotation) in (Union, types.UnionType):
            annotation = next(part for part in get_args(annotation) if part is not type(None))
        return annotation.__origin__ if get_origin(annotation) is Annotated else annotation

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it takes, if it takes only some."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def form(self) -> str:
        """The accepted form of its value, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        words = {bool: "true or false", int: "a whole number", float: "a number"}
        bounds = [
            f"{sign} {getattr(mark, name)}"
            for mark in self.info.metadata
            for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="))
            if hasattr(mark, name)
        ]
        return f"{words.get(self.kind, 'text')} {' and '.join(bounds)}".strip()

    def default(self, command: Command | None = None) -> Any:
        """The default, which may differ for a command."""
        return self.extra.by_command.get(command, self.info.default) if command else self.info.default


@functools.cache
def flags(spec: type[BaseModel]) -> tuple[Flag, ...]:
    """Every option of a spec, group by group, in the order of declaration."""
    found = []
    for group in spec.__bases__:
        title = (group.__doc__ or "").strip().rstrip(".")
        for name in group.__annotations__:
            info = spec.model_fields[name]
            extra = next(mark for mark in info.metadata if isinstance(mark, Extra))
            found.append(Flag(name, title, info, extra))
    return tuple(found)
