"""What a registry wants to see before it lets us in: a password, or a token that is given for one.

It says so by refusing the first request. A token is good for one repository and what is to be done there, and
is had from wherever the registry sends us, which is shown no password that the registry would not be shown.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.image.registry.logins import Login, login, places
from elastic_runtime.image.registry.reference import Reference
from elastic_runtime.image.registry.wire import Wire, body_of, reason

_SETTING = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,"]+))')


def authorize(wire: Wire, challenge: str, image: Reference, scopes: Iterable[str]) -> str:
    """The header that answers the challenge; without a login, one that anybody gets."""
    known = login(image)
    bearer = re.search(r"\bBearer\s+(.*)", challenge, re.IGNORECASE)
    if bearer:
        settings: dict[str, str] = {}
        for name, quoted, plain in _SETTING.findall(bearer[1]):
            settings.setdefault(name.lower(), quoted or plain)
        return f"Bearer {_token(wire, settings, known, image, scopes)}"
    if known and known.user and re.search(r"\bBasic\b", challenge, re.IGNORECASE):
        return known.basic
    raise refused(image, f"it asks for {challenge or 'something it does not name'}")


def refused(image: Reference, said: str) -> ElasticError:
    """The registry does not let us: who we are to it, and what to do."""
    known = login(image)
    if known:
        remedy = f"may {known.user or 'the token'} of {known.source} do this?"
    else:
        looked = " or ".join(str(place) for place in places()[:2])
        remedy = (
            f"docker login {image.registry}, or mount a secret and name its folder in DOCKER_CONFIG; "
            f"there is no login in {looked}"
        )
    return ElasticError(f"the registry {image.registry} refuses: {said}", where=str(image), remedy=remedy)


def _token(
    wire: Wire, settings: dict[str, str], known: Login | None, image: Reference, scopes: Iterable[str]
) -> str:
    realm = settings.get("realm", "")
    if not re.match("https?://", realm):
        raise ElasticError(f"sends us to {realm!r} for a token", where=image.registry)
    if known and realm.startswith("http:") and wire.root.startswith("https:"):
        raise ElasticError(f"would have us send a password in the clear, to {realm}", where=image.registry)
    query = [("service", settings.get("service", "")), *(("scope", scope) for scope in scopes)]
    if known and known.token:
        form = [("grant_type", "refresh_token"), ("refresh_token", known.token), ("client_id", "elasticdl")]
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        body = urllib.parse.urlencode([*form, ("service", query[0][1]), ("scope", " ".join(scopes))]).encode()
        answer = wire.send("POST", realm, headers=headers, body=body)
    else:
        address = f"{realm}{'&' if '?' in realm else '?'}{urllib.parse.urlencode(query)}"
        answer = wire.send("GET", address, headers={}, authorization=known.basic if known else "")
    if answer.status != 200:
        raise refused(image, reason(answer))
    return _found(b"".join(body_of(answer)), image)


def _found(content: bytes, image: Reference) -> str:
    try:
        told: dict[str, Any] = json.loads(content)
        return str(told.get("token") or told["access_token"])
    except (ValueError, LookupError, AttributeError) as error:
        raise ElasticError("gave us no token", where=image.registry) from error
