"""A web server on this machine that has one file, and ways of its own to give it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

Give = Callable[["Answer"], None]


def _digits() -> bytes:
    content = io.BytesIO()
    parts = {"train": 3, "test": 2}
    images = {f"x_{part}": np.zeros((count, 28, 28), np.uint8) for part, count in parts.items()}
    labels = {f"y_{part}": np.arange(count, dtype=np.uint8) for part, count in parts.items()}
    np.savez_compressed(content, **images, **labels)
    return content.getvalue()


DIGITS = _digits()
"""A file such as MNIST's, of 3 + 2 images."""
SHA256 = hashlib.sha256(DIGITS).hexdigest()


class Answer(BaseHTTPRequestHandler):
    """One request's."""

    server: Web

    def do_GET(self) -> None:
        """As the server has been told to."""
        self.server.asked.append(self.path)
        self.server.give(self)

    def begin(self, length: int) -> None:
        """So many bytes are promised."""
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Nothing is shown."""


class Web(ThreadingHTTPServer):
    """See above."""

    def __init__(self, give: Give) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.give = give
        self.asked: list[str] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """Of the file."""
        return f"http://127.0.0.1:{self.server_port}/mnist.npz"


def whole(answer: Answer) -> None:
    """All of it."""
    answer.begin(len(DIGITS))
    answer.wfile.write(DIGITS)


def another(answer: Answer) -> None:
    """A file of the same length, in which one bit is another."""
    answer.begin(len(DIGITS))
    answer.wfile.write(bytes([DIGITS[0] ^ 1]) + DIGITS[1:])


def missing(answer: Answer) -> None:
    """There is none."""
    answer.send_error(404)


def cut(answer: Answer) -> None:
    """The line breaks in the middle."""
    answer.begin(len(DIGITS))
    answer.wfile.write(DIGITS[: len(DIGITS) // 2])


def cut_in_a_piece(answer: Answer) -> None:
    """The same, of one that comes in pieces, and does not say how long it is."""
    answer.protocol_version = "HTTP/1.1"
    answer.send_response(200)
    answer.send_header("Transfer-Encoding", "chunked")
    answer.end_headers()
    answer.wfile.write(b"%x\r\n" % len(DIGITS) + DIGITS[: len(DIGITS) // 2])
    answer.close_connection = True


def nothing_more(answer: Answer) -> None:
    """In the middle it says no more, and stays."""
    cut(answer)
    answer.server.over.wait(60)


def drops(answer: Answer) -> None:
    """A byte now and then."""
    answer.begin(len(DIGITS))
    with contextlib.suppress(ConnectionError):  # whoever asked has had enough
        for byte in DIGITS:
            answer.wfile.write(bytes([byte]))
            if answer.server.over.wait(0.02):
                return


def no_end(answer: Answer) -> None:
    """More and more, as of a file that is generated."""
    answer.begin(1 << 40)
    with contextlib.suppress(ConnectionError):
        while not answer.server.over.is_set():
            answer.wfile.write(bytes(1 << 16))


@contextmanager
def web(give: Give = whole) -> Iterator[Web]:
    """The server, as long as it is used."""
    with Web(give) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
