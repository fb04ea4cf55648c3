"""A service account with the rights of a manifest, or with all of them but one, and what is refused to it.

This process is the account: what connects here as a pod would, by the surroundings, asks with its rights.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from elastic_runtime.platform.kubernetes.connection import Connection, configuration
from elastic_runtime.platform.kubernetes.errors import Forbidden
from elastic_runtime.spec.job import JobSpec
from tests.cluster.kit.cluster import PATIENCE_SECONDS
from tests.cluster.kit.commands import until
from tests.cluster.kit.namespace import Namespace

MANIFESTS = Path(__file__).parents[2] / "manifests"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
Right = tuple[str, str, str]
"""API group, resource and verb."""


def documents(*names: str) -> list[dict[str, Any]]:
    """What is in these manifests."""
    return [found for name in names for found in yaml.safe_load_all((MANIFESTS / name).read_text())]


def rights_of(role: dict[str, Any]) -> set[Right]:
    """Those of a role, or of an answer to what an account may do."""
    return {
        (group, kind, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }


class Account:
    """A service account of a namespace, made if need be."""

    def __init__(
        self, namespace: Namespace, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "default"
    ) -> None:
        self.namespace, self.name = namespace, name
        if name != "default":
            namespace.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        admin = yaml.safe_load(namespace.cluster.kubeconfig.read_text())
        admin["users"][0]["user"] = {"token": namespace.kubectl("create", "token", name).strip()}
        (folder / "kubeconfig").write_text(yaml.safe_dump(admin))
        monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
        self._line = Connection(configuration(force_kube_config_file=True), patience=60)

    def grant(self, manifest: list[dict[str, Any]], but: Right | None = None) -> None:
        """Apply it, without one of its rights; return once the API knows of the account's."""
        made, rights = copy.deepcopy(manifest), {}
        for role in (each for each in made if each["kind"] == "Role"):
            kept = rights[role["metadata"]["name"]] = rights_of(role) - {but}
            role["rules"] = [
                {"apiGroups": [group], "resources": [kind], "verbs": [verb]} for group, kind, verb in kept
            ]
        self.namespace.apply(*made)
        bound = [each for each in made if each["kind"] == "RoleBinding" and self._is_in(each["subjects"])]
        whole = set().union(*(rights[each["roleRef"]["name"]] for each in bound))

        def granted() -> bool:
            found = self.rights(self.namespace.name)
            return whole <= found and but not in found

        until(granted, what="the rights are granted", seconds=PATIENCE_SECONDS)

    def rights(self, namespace: str) -> set[Right]:
        """All that the API says this account may do there."""
        asked = {"spec": {"namespace": namespace}}
        said = self._line.ask("POST", REVIEW, body=asked, kind="object")["status"]
        assert not said["incomplete"]
        return rights_of({"rules": said["resourceRules"]})

    def is_refused(self, method: str, place: str) -> bool:
        """Whether it is, by a real request."""
        try:
            self._line.ask(method, place, body=None if method == "GET" else {})
        except Forbidden as refusal:
            return "cannot" in str(refusal)
        return False

    def _is_in(self, subjects: list[dict[str, str]]) -> bool:
        return {"kind": "ServiceAccount", "name": self.name} in subjects


def small_job(namespace: Namespace, name: str = "j") -> JobSpec:
    """One whose workers are busyboxes."""
    small = {f"worker_resource_{what}": "cpu=10m,memory=16Mi" for what in ("request", "limit")}
    image = {"image_name": namespace.cluster.image("busybox"), "image_pull_policy": "IfNotPresent"}
    work = {"job_name": name, "model_def": "m", "training_data": "/d", "namespace": namespace.name}
    return JobSpec.make({**work, **image, **small}, [])


def refused_in(life: Callable[[], Coroutine[Any, Any, None]]) -> str:
    """What is refused first in such a life, in the API's words; empty if nothing is."""

    async def run() -> str:
        warned: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        with _first_warning(warned):
            living = asyncio.create_task(life())
            done, _ = await asyncio.wait({living, warned}, timeout=400, return_when=asyncio.FIRST_COMPLETED)
            assert done, "neither refused nor at its end after 400 s"
            living.cancel()
            try:
                await living
            except Forbidden as refusal:
                return str(refusal)
            except asyncio.CancelledError:
                return warned.result()
        return warned.result() if warned.done() else ""

    return asyncio.run(run())


@contextmanager
def _first_warning(said: asyncio.Future[str]) -> Iterator[None]:
    """Of a refusal, by a thread that tries again and again: a watch, for one, is never given up."""
    loop, listener = said.get_loop(), logging.Handler(logging.WARNING)
    tell = lambda words: said.done() or said.set_result(words)  # noqa: E731
    listener.addFilter(lambda record: "forbidden" in record.getMessage())  # a slow answer is no refusal
    listener.emit = lambda record: loop.call_soon_threadsafe(tell, record.getMessage())
    logging.getLogger("elastic_runtime").addHandler(listener)
    try:
        yield
    finally:
        logging.getLogger("elastic_runtime").removeHandler(listener)
