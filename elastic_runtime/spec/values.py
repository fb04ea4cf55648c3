"""Kinds of option values. Text stays text in the spec, so that it travels unchanged; it is checked here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from elastic_runtime.errors import InputError
from elastic_runtime.spec.pairs import envs
from elastic_runtime.spec.params import parse_params
from elastic_runtime.spec.priorities import parse_priority_class, parse_worker_priority
from elastic_runtime.spec.resources import parse_limit, parse_resources
from elastic_runtime.spec.scheduling import parse_node_selector, parse_tolerations
from elastic_runtime.spec.volumes import parse_volumes

LONGEST_JOB_NAME = 40  # elasticdl-<job>-worker-<n> has to fit in the 63 characters of a label

_TRUE, _FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_SUBDOMAINS = re.compile(f"{_SUBDOMAIN.pattern}(,{_SUBDOMAIN.pattern})*")
_SYMBOL = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})|@.+")
_IMAGE = re.compile(r"[A-Za-z0-9][\w./:@-]*", re.ASCII)


def job_name(name: str) -> str:
    """A job's name, which is part of its pods' names."""
    if not _LABEL.fullmatch(name) or len(name) > LONGEST_JOB_NAME:
        raise InputError(
            f"{name!r} cannot be a job's name",
            remedy=f"at most {LONGEST_JOB_NAME} lower-case letters and digits, with '-' between them",
        )
    return name


def truth(value: object) -> object:
    """`true`, `yes`, `t`, `y`, `1` or their opposites in any case; anything else is an error."""
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word not in _TRUE + _FALSE:
        raise ValueError
    return word in _TRUE


def _checked(check: Callable[[str], object]) -> AfterValidator:
    """Keep the text if `check` accepts it; if not, its error tells which option it was."""

    def validate(text: str, info: ValidationInfo) -> str:
        try:
            _one_line(text)
            check(text)
        except InputError as error:
            raise InputError(error.what, where=f"--{info.field_name}", remedy=error.remedy) from None
        return text

    return AfterValidator(validate)


def _like(pattern: re.Pattern[str], form: str, *, empty: bool = True) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not pattern.fullmatch(text) and not (empty and text == ""):
            raise InputError(f"got {text!r}", remedy=f"give {form}")

    return check


def _one_line(text: str) -> None:
    if any(not character.isprintable() for character in text):
        raise InputError(f"got {text!r}", remedy="give one line of printable text")


def _port_in(text: str) -> None:
    _like(_ADDRESS, "host:port")(text)
    if text and not text.startswith("@") and not 0 < int(text.rpartition(":")[2]) < 65536:
        raise InputError(f"got {text!r}", remedy="give a port from 1 to 65535")


def _regular_expression(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise InputError(f"got {text!r}, {error}", remedy="give a regular expression") from None


def _whole(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        raise ValueError
    return value


Switch = Annotated[bool, BeforeValidator(truth)]
Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, _checked(str)]
JobName = Annotated[str, _checked(lambda text: text and job_name(text))]
Symbol = Annotated[str, _checked(_like(_SYMBOL, "a name, or module.name", empty=False))]
Namespace = Annotated[str, _checked(_like(_LABEL, "lower-case letters, digits and '-'", empty=False))]
Image = Annotated[str, _checked(_like(_IMAGE, "an image such as registry/name:tag"))]
Address = Annotated[str, _checked(_port_in)]
Volumes = Annotated[str, _checked(parse_volumes)]
Resources = Annotated[str, _checked(parse_resources)]
Limit = Annotated[str, _checked(parse_limit)]
PriorityClass = Annotated[str, _checked(parse_priority_class)]
WorkerPriorityText = Annotated[str, _checked(parse_worker_priority)]
Envs = Annotated[str, _checked(envs)]
NodeSelector = Annotated[str, _checked(parse_node_selector)]
Tolerations = Annotated[str, _checked(parse_tolerations)]
ServiceAccount = Annotated[str, _checked(_like(_SUBDOMAIN, "the name of a service account"))]
Secrets = Annotated[str, _checked(_like(_SUBDOMAINS, "names of secrets, with commas"))]
Params = Annotated[str, _checked(parse_params)]
Pattern = Annotated[str, _checked(_regular_expression)]
