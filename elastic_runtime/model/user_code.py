"""Errors in the user's own code, told as the user would see them in a plain Keras program.

TensorFlow runs `feed`, `loss` and the model from deep inside itself. What is shown here is the error and those frames of its
traceback that are the user's; frames of TensorFlow, Keras and of this program say nothing to the user.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import elastic_runtime
from elastic_runtime.errors import ElasticError

_NOT_THE_USERS = tuple(
    str(Path(place))
    for place in (
        Path(elastic_runtime.__file__).parent,
        *(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")),
    )
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+')


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


def told(symbol: str, error: Exception) -> UserCodeError:
    """The error as one line, with the user's part of its traceback."""
    message = _without_graph_noise(str(error))
    lines = [line for line in message.splitlines() if line.strip()]
    headline = next((line for line in reversed(lines) if _is_exception_line(line)), lines[0] if lines else "")
    if not _is_exception_line(headline):
        headline = f"{type(error).__name__}: {headline.strip()}"
    text = "".join(_users_frames(error)) + "\n".join(_users_lines(message.splitlines()))
    if headline.strip() not in text:
        text = f"{text}\n{headline.strip()}"
    return UserCodeError(
        headline.strip(), symbol=symbol, traceback_text=text.strip("\n"), where=f"the model's {symbol}"
    )


def _users_frames(error: Exception) -> list[str]:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_users(f.filename)]
    return traceback.format_list(frames)


def _users_lines(lines: list[str]) -> Iterator[str]:
    """The lines of a traceback told inside an error's message, without the frames that are not the user's."""
    skipping = False
    for line in lines:
        frame = _FRAME.match(line)
        if frame:
            skipping = not _is_users(frame["file"])
        elif skipping and not line.startswith("    "):
            skipping = False
        if not skipping:
            yield line


def _is_users(filename: str) -> bool:
    return not filename.startswith((*_NOT_THE_USERS, "<")) and "__autograph_generated_file" not in filename


def _is_exception_line(line: str) -> bool:
    return re.match(r"^\s*[A-Za-z_][\w.]*(Error|Exception|Interrupt|Warning)\b:?", line) is not None


def _without_graph_noise(message: str) -> str:
    message = re.sub(r"\s*\[\[\{\{node [^]]*\]\]|\s*\[Op:\w+\]( name: *\S*)?", "", message)
    message = re.sub(r"\n\s*(Function call stack|Errors may have originated).*", "", message, flags=re.DOTALL)
    return message.replace("in user code:\n", "")
