"""What the API server says instead of doing what it was asked, in the user's words.

Each answer a caller may want to act on has a class of its own. `passing` tells of a problem whether asking
again may help; `told` makes of any other an error with Kubernetes' own text and the remedy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3 import exceptions as http

from elastic_runtime.errors import ElasticError, Unavailable

RIGHTS: Mapping[str, Mapping[str, str]] = {
    "manifests/elasticdl-rbac.yaml": {
        "pods": "create get list watch delete",
        "pods/log": "get",
        "services": "create get delete",
        "configmaps": "create get patch delete",
        "secrets": "create delete",
    },
    "manifests/elasticdl-steps-rbac.yaml": {"pods": "patch", "secrets": "get", "workflows": "get"},
}
"""Which manifest gives a job's service account which rights."""
_MAY_NOT = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" '
    r'in API group "[^"]*" in the namespace "(?P<namespace>[^"]+)"'
)
_ASK_REMEDY = (
    "ask for this right; manifests/elasticdl-rbac.yaml gives a job's master those that it needs, "
    "manifests/elasticdl-user-rbac.yaml whoever submits jobs"
)
_LOGIN_REMEDY = "log in to the cluster again; `kubectl get pods` tells when you are"
_CERTIFICATE_REMEDY = "get the cluster's credentials anew; `kubectl get pods` tells when they fit"


class ApiError(ElasticError):
    """The API server refused."""


class Away(ApiError, Unavailable):
    """The API server did not answer for as long as it was waited for."""


class CutOff(ApiError):
    """Of a command in a pod nobody tells how it ended."""


class Forbidden(ApiError):
    """This account may not do it."""


class NoQuota(ApiError):
    """The namespace has used up what it may."""


class NotThere(ApiError):
    """There is no such object, or no such namespace."""


class StillThere(ApiError):
    """What was deleted has not gone in time."""


class AlreadyThere(ApiError):
    """There is an object of this name; after a lost answer it may be the one just made."""


class Changed(ApiError):
    """The object is not the one, or not the version, that was meant."""


class Expired(ApiError):
    """The server has forgotten this place in the order of events: list anew."""


class Invalid(ApiError):
    """The request is wrong in itself."""


_KINDS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    403: Forbidden,
    404: NotThere,
    409: Changed,
    410: Expired,
    413: Invalid,
    422: Invalid,
}


def passing(problem: ApiException | http.HTTPError) -> str:
    """Why the server did not answer, if that may be otherwise in a moment; else nothing."""
    if isinstance(problem, ApiException):
        if problem.status == 0:  # of TLS, to which the server's death in the middle of it belongs, or of ours
            broke = _of_tls(problem) and "certificate" not in str(problem.reason).lower()
            return "the connection broke" if broke else ""
        answer = _status(problem.body)
        if problem.status == 429 or problem.status >= 500 or _lost_a_race_for_quota(problem, answer):
            return f"it answers {problem.status} {_message(answer) or problem.reason}"
        return ""
    if isinstance(problem, http.NameResolutionError):
        return "its name is not known"
    if isinstance(problem, http.TimeoutError) and not isinstance(problem, http.NewConnectionError):
        return "it does not answer in time"
    return "the connection is refused" if "refused" in str(problem) else "the connection broke"


def knows_nobody(problem: ApiException | http.HTTPError) -> bool:
    """Whether it is a refusal of the one who asks, not of what was asked."""
    if not isinstance(problem, ApiException) or problem.status not in (401, 403):
        return False
    return not _is_of_quota(_message(_status(problem.body)))


def told(problem: ApiException | http.HTTPError) -> ApiError:
    """The server's refusal as an error for whoever asked."""
    assert isinstance(problem, ApiException), "a broken line passes"
    if problem.status == 0:
        why, remedy = str(problem.reason).splitlines()[-1], _CERTIFICATE_REMEDY if _of_tls(problem) else ""
        return ApiError(why, where="Kubernetes", remedy=remedy)
    answer = _status(problem.body)
    return of_status({"message": problem.reason, **answer, "code": problem.status})


def of_status(answer: Mapping[str, Any]) -> ApiError:
    """The error that an object of kind `Status` stands for."""
    code, message = answer.get("code", 0), _message(answer) or "no reason given"
    kind, remedy = _KINDS.get(code, ApiError), ""
    if code == 401:
        message, remedy = f"the cluster does not know who this is ({message})", _LOGIN_REMEDY
    elif code == 403 and _is_of_quota(message):
        kind, remedy = NoQuota, "ask for less, free something, or have the quota raised"
    elif code == 403 and "no PriorityClass" in message:
        remedy = "kubectl apply -f manifests/elasticdl-priorities.yaml makes `high` and `low`"
    elif code == 403 and " cannot " in message:
        remedy = _right(message)
    elif code == 404 and message.startswith("namespaces "):
        remedy = "create it, or name another with --namespace"
    elif code == 409 and answer.get("reason") == "AlreadyExists":
        kind = AlreadyThere
    return kind(message, where="Kubernetes", remedy=remedy)


def _right(message: str) -> str:
    """What gives the account of a job the right that it lacks, in its own namespace; others have to ask."""
    if not (lacks := _MAY_NOT.search(message)):
        return _ASK_REMEDY
    namespace, verb, resource = lacks["namespace"], lacks["verb"], lacks["resource"]
    account = lacks["user"].removeprefix(f"system:serviceaccount:{namespace}:")
    file = next((file for file, has in RIGHTS.items() if verb in has.get(resource, "").split()), "")
    if not file or account == lacks["user"]:
        return _ASK_REMEDY
    if account == "default":
        return f"kubectl apply -n {namespace} -f {file}"
    names = f"s/ name: elasticdl/&-{account}/; s/name: default/name: {account}/"  # default keeps its own
    return f"sed '{names}' {file} | kubectl apply -n {namespace} -f -"


def _is_of_quota(message: str) -> bool:
    return "exceeded quota" in message or "status unknown for quota" in message


def _lost_a_race_for_quota(problem: ApiException, answer: Mapping[str, Any]) -> bool:
    """Whether others changed a quota while it was looked at for us: nothing was made, and there may be room.

    OpenShift has quotas of the whole cluster, too.
    """
    kind = str((answer.get("details") or {}).get("kind"))
    return problem.status == 409 and answer.get("reason") == "Conflict" and kind.endswith("resourcequotas")


def _of_tls(problem: ApiException) -> bool:
    return str(problem.reason).startswith("SSLError")


def _message(answer: Mapping[str, Any]) -> str:
    """The server's text, and of its causes those that the text does not name."""
    message = str(answer.get("message") or "")
    causes = (answer.get("details") or {}).get("causes") or ()
    more = [cause.get("message") or "" for cause in causes]
    return "; ".join([message, *(text for text in more if text and text not in message)])


def _status(body: str | bytes | None) -> dict[str, Any]:
    """What was said about a refusal; proxies in between say it in other ways than Kubernetes does."""
    try:
        answer = json.loads(body or b"")
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
