"""What a store's own package raises, as an error for whoever asked for data.

Most of it is a verdict: no such place, no right to it, wrong credentials. A store that is away, overloaded or
does not answer in time may be there in a moment, and a step that failed of it is worth another attempt, so
that is an `Unavailable`. By then the packages have tried several times themselves: s3fs up to five, each for
15 s at most, gcsfs up to six. They need not be installed, so their exceptions are known by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elastic_runtime.errors import ElasticError, InputError, Unavailable

_REMEDY = "the store may be back in a moment: run it again"
_OPEN_REMEDY = (
    "a step of Kubeflow Pipelines is let in by `open_store(task)` of elasticdl_components.store, others by "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
_NOT_LET_IN = {
    "botocore.exceptions.NoCredentialsError",
    "botocore.exceptions.PartialCredentialsError",
}
_VERDICTS = (FileNotFoundError, PermissionError)
_MAY_PASS = {
    "builtins.ConnectionError",
    "builtins.TimeoutError",
    "aiohttp.client_exceptions.ClientConnectionError",
    "aiohttp.client_exceptions.ClientPayloadError",
    "botocore.exceptions.ConnectionError",
    "botocore.exceptions.HTTPClientError",
    "botocore.exceptions.IncompleteReadError",
    "google.auth.exceptions.TransportError",
    "requests.exceptions.ChunkedEncodingError",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
}
_CODES = {"InternalError", "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException"}
"""S3 answers some of them with a status that says otherwise."""
_STATUSES = {408, 429, *range(500, 600)} - {501, 505}


@contextmanager
def told(doing: str, where: str, *, verdict: type[ElasticError] = InputError) -> Iterator[None]:
    """Make what a store raises an error that says it `cannot be` `doing`."""
    try:
        yield
    except (OSError, EOFError) as error:
        raise as_error(error, doing, where, verdict) from error
    except ElasticError:
        raise
    except Exception as error:
        if not may_pass(error):
            raise
        raise as_error(error, doing, where, verdict) from error


def as_error(error: Exception, doing: str, where: str, verdict: type[ElasticError]) -> ElasticError:
    """The error for the user that an exception amounts to."""
    reason = str(getattr(error, "strerror", "") or error or type(error).__name__)
    if may_pass(error):
        return Unavailable(f"cannot be {doing} just now: {reason}", where=where, remedy=_REMEDY)
    remedy = _OPEN_REMEDY if _kinds(error) & _NOT_LET_IN else ""
    return verdict(f"cannot be {doing}: {reason}", where=where, remedy=remedy)


def may_pass(error: BaseException | None) -> bool:
    """Whether asking again may help; what the exception was raised from counts, too."""
    if error is None or isinstance(error, _VERDICTS) or "certificate" in str(error).lower():
        return False
    if (status := _status(error)) is not None:
        return status in _STATUSES
    return bool(_kinds(error) & _MAY_PASS) or may_pass(error.__cause__)


def _kinds(error: BaseException) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}


def _status(error: Any) -> int | None:
    """The HTTP status that a store has answered with, wherever its package keeps it."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore's
        if response.get("Error", {}).get("Code") in _CODES:
            return 503
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        places = (
            (response, "status_code"),
            (error, "status"),
            (error, "code"),
        )  # requests', aiohttp's, gcsfs'
        found = next((value for of, name in places if (value := getattr(of, name, None))), None)
    return int(found) if str(found).isdecimal() else None
