"""A command in a pod whose end is told, or not."""

import json
import socket
from types import SimpleNamespace

import pytest
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDOUT_CHANNEL, WSClient
from websocket import ABNF, WebSocketConnectionClosedException

from elastic_runtime.platform.kubernetes import remote
from elastic_runtime.platform.kubernetes.errors import CutOff

CLOSE = (ABNF.OPCODE_CLOSE, None)


def said(channel, text):
    return ABNF.OPCODE_BINARY, SimpleNamespace(data=bytes([channel]) + text.encode())


def ended(**status):
    return said(ERROR_CHANNEL, json.dumps(status))


class Line(WSClient):
    """The package's own client, on a connection that gives these frames and then breaks."""

    def __init__(self, frames):
        self._near, far = socket.socketpair()
        far.send(b"something to read")
        self._far, self._frames = far, list(frames)
        self._connected, self._channels, self.binary, self._returncode = True, {}, False, None
        self._all = SimpleNamespace(write=lambda _: None)
        self.sock = self

    connected = True

    def recv_data_frame(self, _):
        if not self._frames:
            raise WebSocketConnectionClosedException("gone")
        return self._frames.pop(0)

    def fileno(self):
        return self._near.fileno()


def run(monkeypatch, *frames):
    monkeypatch.setattr(remote, "configuration", lambda **_: None)
    line = Line(frames)
    monkeypatch.setattr(remote, "stream", lambda *_, container, **__: line if container == "own" else None)
    out: list[str] = []
    code = remote.run_in_pod("n", "p", ["c"], container="own", out=out.append, err=out.append)
    return code, "".join(out)


def test_an_exit_code_is_passed_on(monkeypatch):
    causes = {"causes": [{"reason": "ExitCode", "message": "3"}]}
    wrote, end = said(STDOUT_CHANNEL, "one"), ended(status="Failure", details=causes)
    assert run(monkeypatch, wrote, end, CLOSE) == (3, "one")


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [CLOSE],
        [ended(status="Failure", message="container not running"), CLOSE],
        [ended(status="Failure", details={"causes": [{"message": "task exited"}]}), CLOSE],
    ],
    ids=["the line breaks", "not a word", "no cause", "a cause that is no code"],
)
def test_an_end_that_is_not_told_is_said_to_be_none(monkeypatch, frames):
    with pytest.raises(CutOff, match="not told"):
        run(monkeypatch, said(STDOUT_CHANNEL, "one"), *frames)
