"""A real browser without a window, told what to do over the DevTools protocol.

It speaks through a pipe (`--remote-debugging-pipe`): no port, no package for it, and the browser ends with
the test that holds the other end. Chromium's own traffic is cut off: who asks for an address is the page.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.errors import ElasticError
from tests.cluster.kit import requirements

PACKAGES = {"chromium": "chromium", "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"}
ANSWER_SECONDS = 120.0
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which cannot be had as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-features=IsolateSandboxedIframes",  # so that one session sees a page with its frames
    "--disable-site-isolation-trials",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def why_not() -> str:
    """What this machine lacks, in a few words; empty if it has a browser or can get one."""
    missing = requirements.missing(PACKAGES)
    if not missing:
        return ""
    if not sys.platform.startswith("linux"):
        return f"needs {', '.join(missing)}, this is {sys.platform}"
    if os.geteuid() != 0 or not requirements.found("apt-get"):
        return f"needs {', '.join(missing)}, and only root can install that, with apt-get"
    return ""


def skip_or_fail(reason: str) -> None:
    """End a test that has none here; where the checks want one, that is no excuse."""
    if os.environ.get("ELASTICDL_CLUSTER_TESTS") == "required":
        pytest.fail(f"a browser is required here, and there is none: {reason}", pytrace=False)
    pytest.skip(f"no browser on this machine: {reason}")


@dataclass(slots=True)
class Page:
    """An open page; `said` is what its console has, `asked_for` every address that was asked for."""

    browser: Browser
    session: str
    said: list[str] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)

    def show(self, *, width: int, dark: bool) -> None:
        """At this width, to somebody who likes it light or dark; returns when it is drawn so."""
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.run(_TWO_FRAMES, innermost=False)

    def run(self, script: str, *, innermost: bool = True) -> Any:
        """The value of an expression in the innermost frame or the outermost, in a world of its own."""
        tree = self.call("Page.getFrameTree")["frameTree"]
        while innermost and (children := tree.get("childFrames")):
            tree = children[0]
        world = self.call("Page.createIsolatedWorld", frameId=tree["frame"]["id"])["executionContextId"]
        how = {"contextId": world, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=script, **how)
        if problem := answer.get("exceptionDetails"):
            raise AssertionError(f"{problem.get('text')} {problem.get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """All of the page, as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """A method of the protocol, on this page."""
        return self.browser.call(method, session=self.session, **params)

    def hear(self, event: dict[str, Any]) -> None:
        """Remember what the tests ask for later."""
        params = event["params"]
        match event["method"]:
            case "Log.entryAdded":
                entry = params["entry"]
                self.said.append(f"{entry['level']}: {entry['text']}")
            case "Runtime.consoleAPICalled":
                self.said.append(f"{params['type']}: {[arg.get('value') for arg in params['args']]}")
            case "Runtime.exceptionThrown":
                self.said.append(f"exception: {params['exceptionDetails']['text']}")
            case "Network.requestWillBeSent":
                self.asked_for.append(params["request"]["url"])


class Browser:
    """The process, and its pages."""

    def __init__(self, folder: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        ends = (theirs_in, theirs_out)
        start = 'exec "$0" "$@" 3<&{} 4>&{}'.format(*ends)  # what Chromium expects, and dash cannot do
        options = (*_OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank")
        self._log = (folder / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            ["bash", "-c", start, "chromium", *options],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "HOME": str(folder)},
            start_new_session=True,
        )
        for end in ends:
            os.close(end)
        self._in, self._out = ours_in, ours_out
        self._heard, self._number = b"", 0
        self._pages: dict[str, Page] = {}

    def close(self) -> None:
        """End the process with all its children."""
        os.close(self._out)  # at which it ends by itself
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._in)
        self._log.close()

    @contextmanager
    def open(self, path: Path, *, width: int = 900, dark: bool = False) -> Iterator[Page]:
        """A page from disk, loaded and drawn."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.call(f"{domain}.enable")
            page.show(width=width, dark=dark)
            page.call("Page.navigate", url=path.as_uri())
            self._until(
                lambda said: said.get("method") == "Page.loadEventFired" and said["sessionId"] == session
            )
            yield page
        finally:
            del self._pages[session]
            self.call("Target.closeTarget", targetId=target)

    def call(self, method: str, *, session: str = "", **params: object) -> dict[str, Any]:
        """A method of the protocol; raises what the browser has against it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        number = self._number
        answer = self._until(lambda message: message.get("id") == number)
        if "error" in answer:
            raise ElasticError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _until(self, wanted: Any) -> dict[str, Any]:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            message = self._next(deadline)
            if (page := self._pages.get(message.get("sessionId", ""))) and "method" in message:
                page.hear(message)
            if wanted(message):
                return message

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._heard:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(self._in, 1 << 20) if ready else b""
            if not more:
                raise ElasticError(
                    f"the browser {'has ended' if ready else 'does not answer'}", where=self._log.name
                )
            self._heard += more
        first, self._heard = self._heard.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        return message
