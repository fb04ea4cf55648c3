"""HTTP as registries need it: bodies of gigabytes both ways, refusals heard in the middle of one, and
failures that pass told apart from those that stay.

`send` is one request and its answer, whatever that says. `insist` does something again while it fails with
`Trouble`. A redirect goes on without the password, for it leads to somebody else's storage.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import logging
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from elastic_runtime import __version__
from elastic_runtime.errors import ElasticError

log = logging.getLogger(__name__)
T = TypeVar("T")

CHUNK = 1 << 20
_CONNECT_SECONDS = 15
_SILENCE_SECONDS = 120  # a registry may copy gigabytes before it says that it has them
_FEWEST_TRIES = 3  # of what takes longer than one's patience
_LONGEST_PAUSE = 10.0
_PASSING = {408, 425, 429, *range(500, 600)} - {501, 505}
_MOST_OF_AN_ERROR = 1 << 16


class Trouble(ElasticError):
    """What may pass by itself; the server may have said after how many seconds."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", after: float = 0.0) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.after = after


def insist(operation: Callable[[], T], *, patience: float) -> T:
    """Does it again while there is trouble, for that many seconds, and a few times in any case."""
    deadline, pause, tries = time.monotonic() + patience, 0.1, 1
    while True:
        try:
            return operation()
        except Trouble as trouble:
            pause = max(pause, trouble.after)
            is_late = tries >= _FEWEST_TRIES and time.monotonic() + pause > deadline
            if is_late or trouble.after > patience:
                raise
            log.warning("%s; trying again in %.1f s", trouble, pause)
            time.sleep(pause)
            pause, tries = min(2 * pause, _LONGEST_PAUSE), tries + 1


class Wire:
    """The way to one host; no proxy stands between us and this machine."""

    def __init__(self, host: str, *, plain: bool, direct: bool) -> None:
        self.root = f"{'http' if plain else 'https'}://{host}/"
        self._opener = urllib.request.OpenerDirector()  # which knows no files and no FTP
        for part in (
            urllib.request.ProxyHandler({} if direct else None),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _Http(),
            _Https(),
            _Redirects(),
        ):
            self._opener.add_handler(part)

    def send(
        self,
        method: str,
        address: str,
        *,
        headers: Mapping[str, str],
        authorization: str = "",
        body: bytes | Iterable[bytes] | None = None,
    ) -> http.client.HTTPResponse:
        """One request; an answer that is an error is an answer."""
        headers = {"User-Agent": f"elasticdl/{__version__}", **headers}
        request = urllib.request.Request(address, body, headers)  # noqa: S310
        request.method = method
        if authorization:
            request.add_unredirected_header("Authorization", authorization)
        try:
            answer = self._opener.open(request, timeout=_SILENCE_SECONDS)
        except urllib.error.HTTPError as refusal:
            answer = refusal
        except (OSError, http.client.HTTPException) as error:
            raise _broken(error, address) from error
        if answer.status in _PASSING:
            raise Trouble(reason(answer), where=_host(address), after=_seconds(answer.headers["Retry-After"]))
        return answer  # type: ignore[no-any-return]


def body_of(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """What came with an answer, piece by piece; if it ends too early, that is trouble."""
    with contextlib.closing(answer):
        while True:
            try:
                piece = answer.read(CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _broken(error, answer.url) from error
            if not piece:
                break
            yield piece
        if answer.length:
            lacking = f"the answer broke off, {answer.length} bytes too early"
            raise Trouble(lacking, where=_host(answer.url))


def _broken(error: Exception, address: str) -> ElasticError:
    cause, where = getattr(error, "reason", error), _host(address)
    match cause:
        case ssl.SSLCertVerificationError():
            what = f"its certificate is not trusted: {cause.verify_message}"
            remedy = "name a file with the authority's certificate in SSL_CERT_FILE"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "HTTP_REQUEST"):
            what, remedy = "speaks plain HTTP, not HTTPS", "name it in insecure_registries"
        case socket.gaierror(errno=socket.EAI_NONAME):
            what, remedy = "no such host is known", "is the image's name right?"
        case _:
            return Trouble(f"the connection failed: {cause or type(cause).__name__}", where=where)
    return ElasticError(what, where=where, remedy=remedy)


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc


def reason(answer: http.client.HTTPResponse) -> str:
    """What an answer that is an error says."""
    said = f"HTTP {answer.status} {answer.reason}"
    try:
        error = json.loads(answer.read(_MOST_OF_AN_ERROR))["errors"][0]
        return f"{error['code']}: {error.get('message') or said}"
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, AttributeError):
        return said
    finally:
        answer.close()


def _seconds(retry_after: str | None) -> float:
    """A date in place of seconds is not worth waiting for."""
    return float(retry_after) if retry_after and retry_after.isdecimal() else 0.0


class _Hearing(http.client.HTTPConnection):
    """Hears an answer that comes before all is sent: too large, not allowed."""

    def request(self, *args: Any, **kwargs: Any) -> None:
        patience, self.timeout = self.timeout, _CONNECT_SECONDS
        self.connect()
        self.sock.settimeout(patience)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            super().request(*args, **kwargs)


class _HearingTls(_Hearing, http.client.HTTPSConnection):
    pass


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Hearing, req)


class _Https(urllib.request.HTTPSHandler):
    @functools.cached_property
    def _trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context()  # which takes a while

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HearingTls, req, context=self._trusted)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """An address that was signed for asking whether something is there is not one for getting it."""

    def redirect_request(
        self, req: urllib.request.Request, *args: Any, **kwargs: Any
    ) -> urllib.request.Request | None:
        request = super().redirect_request(req, *args, **kwargs)
        if request and req.get_method() == "HEAD":
            request.method = "HEAD"
        return request
