"""What tests ask the API server over and over: `kubectl get` and `kubectl logs` without a program for each.

A program that is started for it takes a tenth of a second of a processor, and a test that waits looks three
times a second. What is understood here is what tests write; all else is left to `kubectl`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3

from elastic_runtime.errors import ElasticError
from tests.cluster.kit.certificates import Authority

CORE, RBAC, ARGO = "api/v1", "apis/rbac.authorization.k8s.io/v1", "apis/argoproj.io/v1alpha1"
PLACES = {
    "configmaps": CORE,
    "events": CORE,
    "leases": "apis/coordination.k8s.io/v1",
    "namespaces": CORE,
    "nodes": CORE,
    "persistentvolumeclaims": CORE,
    "pods": CORE,
    "rolebindings": RBAC,
    "roles": RBAC,
    "secrets": CORE,
    "serviceaccounts": CORE,
    "services": CORE,
    "workflows": ARGO,
    "workflowtaskresults": ARGO,
}
OF_NO_NAMESPACE = {"namespaces", "nodes"}
SELECTORS = {"--selector": "labelSelector", "-l": "labelSelector", "--field-selector": "fieldSelector"}
CONNECT_SECONDS, ANSWER_SECONDS = 10, 60


class NotThereError(ElasticError):
    """Nothing of that name is there."""


class StoodStillError(ElasticError):
    """An API server that is there has not answered for seconds, or not to the end."""


@dataclass(frozen=True, slots=True)
class Question:
    """What `kubectl get` would be asked with these words."""

    kinds: tuple[str, ...]
    name: str
    namespace: str
    filters: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, words: tuple[str, ...]) -> Question | None:
        """None: only `kubectl` understands them."""
        plain, namespace, filters = list[str](), "default", list[tuple[str, str]]()
        rest = iter(words)
        for word in rest:
            option, is_one, value = word.partition("=")
            if option in SELECTORS:
                filters.append((SELECTORS[option], value if is_one else next(rest)))
            elif option == "--namespace":
                namespace = value
            elif word == "--all-namespaces":
                namespace = ""
            elif word.startswith("-"):
                return None
            else:
                plain.append(word)
        if not 1 <= len(plain) <= 2:
            return None
        kinds = tuple(kind if kind in PLACES else f"{kind}s" for kind in plain[0].split(","))
        if not {*kinds} <= {*PLACES}:
            return None
        return cls(kinds, plain[1] if plain[1:] else "", namespace, tuple(filters))

    def paths(self) -> Iterator[str]:
        """Where the answers are, one for each kind."""
        for kind in self.kinds:
            within = f"namespaces/{self.namespace}/" if self.namespace and kind not in OF_NO_NAMESPACE else ""
            yield f"/{PLACES[kind]}/{within}{kind}" + (f"/{quote(self.name)}" if self.name else "")


@dataclass(frozen=True, slots=True)
class Answers:
    """Of the API server of this address, to its administrator."""

    server: str
    pki: Authority

    def get(self, question: Question) -> Any:
        """As `kubectl get --output=json` has it."""
        found = [json.loads(self.read(path, question.filters)) for path in question.paths()]
        if question.name:
            return found[0]
        for each in found:
            kind = {"kind": each["kind"].removesuffix("List"), "apiVersion": each["apiVersion"]}
            each["items"] = [kind | item for item in each["items"]]
        return {"kind": "List", "items": [item for each in found for item in each["items"]]}

    def read(self, path: str, fields: tuple[tuple[str, str], ...] = ()) -> str:
        """What is at this path."""
        try:
            answer = self._pool().request("GET", f"{self.server}{path}", fields=fields)
        except urllib3.exceptions.HTTPError as problem:
            refused = isinstance(problem, urllib3.exceptions.NewConnectionError)
            passing = (urllib3.exceptions.TimeoutError, urllib3.exceptions.ProtocolError)
            kind = StoodStillError if isinstance(problem, passing) and not refused else ElasticError
            raise kind(f"{problem}", where=path) from problem
        text = answer.data.decode(errors="replace")
        if answer.status in {404, 410}:
            raise NotThereError(text, where=path)
        if answer.status in {408, 429, 500, 503, 504}:
            raise StoodStillError(text, where=path)
        if answer.status not in {200, 204}:  # an empty log may be no content
            raise ElasticError(f"{answer.status} {text}", where=path)
        return text

    def _pool(self) -> urllib3.PoolManager:
        admin = self.pki.certificate("admin")
        return _pool(self.pki.certificate("ca"), admin, self.pki.key("admin"), admin.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _pool(ca: Path, certificate: Path, key: Path, _made: int) -> urllib3.PoolManager:
    """The lines to one cluster; another one may have come in its place, with certificates of its own."""
    return urllib3.PoolManager(
        ca_certs=str(ca),
        cert_file=str(certificate),
        key_file=str(key),
        retries=False,
        timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS),
    )
