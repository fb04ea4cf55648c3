"""Errors in the user's own code, told as the user would see them in a plain Keras program.

TensorFlow runs `feed`, `loss` and the model from deep inside itself. What is shown here is the error and
those frames of its traceback that are the user's; frames of TensorFlow, Keras and of this program say nothing
to the user.
"""

from __future__ import annotations

import itertools
import re
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import elastic_runtime
from elastic_runtime.errors import ElasticError

_NOT_THE_USERS = (
    str(Path(elastic_runtime.__file__).parent),
    *(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")),
)
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
_GENERATED = "__autograph_generated_file"
_NAMES_EXCEPTION = re.compile(r"^\s*[A-Za-z_][\w.]*(Error|Exception)\b")
_NOISE = tuple(
    re.compile(pattern)
    for pattern in (
        r"\x1b\[\d*m",
        r"\{\{function_node [^}]*\}\}\s*",
        r"\s*\[\[[^]]*\]\]",
        r"\s*\[Op:\w+\]( name: *\S*)?",
        r"(?m)^(in user code|Graph execution error):\s*$",
        r"(?m)^(Detected at node .*|<stack traces unavailable>|Traceback \(most recent call last\):)$",
        r"Exception encountered when calling [^\n]*\n\s*",
        r"(?s)\s*Arguments received by .*",
    )
)


class UserCodeError(ElasticError):
    """An exception left the user's code: in which symbol of the model module, and its trimmed traceback."""

    def __init__(self, what: str, *, symbol: str = "", traceback_text: str = "", where: str = "") -> None:
        self.symbol, self.traceback_text = symbol, traceback_text
        super().__init__(what, where=where)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.what, self.symbol, self.traceback_text, self.where)


def _rebuild(what: str, symbol: str, traceback_text: str, where: str) -> UserCodeError:
    return UserCodeError(what, symbol=symbol, traceback_text=traceback_text, where=where)


@contextmanager
def user_code(symbol: str) -> Iterator[None]:
    """Whatever is raised inside comes from the user's `symbol`."""
    try:
        yield
    except ElasticError:
        raise
    except Exception as error:
        raise told(symbol, error) from error


def told(symbol: str, error: Exception) -> ElasticError:
    """The error as one line with its place, and the user's part of its traceback."""
    if isinstance(error, ElasticError):
        return error
    lines = list(_users_lines(_without_noise(str(error)).splitlines()))
    headline = _headline(type(error).__name__, lines)
    text = "\n".join([*_users_frames(error), *lines]).strip("\n")
    if headline not in text:
        text = f"{text}\n{headline}".strip("\n")
    frames = _FRAME.findall(text)
    written = [frame for frame in frames if _GENERATED not in frame[0]] or frames
    place = f"{written[-1][0]}:{written[-1][1]}, " if written else ""
    return UserCodeError(headline, symbol=symbol, traceback_text=text, where=f"{place}in {symbol}")


def _headline(kind: str, lines: list[str]) -> str:
    """What is said beside the frames: the last line that names an exception, or else the first one."""
    said = [
        line.strip()
        for before, line in itertools.pairwise(["", *lines])
        if not _FRAME.match(line) and not (_FRAME.match(before) and line.startswith("    "))
    ]
    named = [line for line in said if _NAMES_EXCEPTION.match(line)]
    return named[-1] if named else f"{kind}: {said[0] if said else 'no more is known'}"


def _users_frames(error: Exception) -> list[str]:
    """Those of the error itself; where TensorFlow rewrote the code, its message has the frames."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if _is_users(f.filename) and _GENERATED not in f.filename]
    return [line.rstrip("\n") for line in traceback.format_list(users)]


def _users_lines(lines: list[str]) -> Iterator[str]:
    """The lines of a traceback told inside an error's message, without the frames that are not the user's."""
    skipping = False
    for line in lines:
        frame = _FRAME.match(line)
        if frame:
            skipping = not _is_users(frame[1])
        elif skipping and not line.startswith("    "):
            skipping = False
        if not skipping and line.strip():
            yield line


def _is_users(filename: str) -> bool:
    return not filename.startswith((*_NOT_THE_USERS, "<"))


def _without_noise(message: str) -> str:
    for pattern in _NOISE:
        message = pattern.sub("", message)
    return message
