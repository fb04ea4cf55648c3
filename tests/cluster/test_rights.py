"""The rights of `manifests/elasticdl-rbac.yaml`: each one is needed, and they are all there is.

A life is all that a master asks of the API, from finding itself in a pod to a job that succeeded, asked by
the classes that ask it there, and as the service account whose rights these are. With all of them nothing is
refused; without any one of them that one is.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from elastic_runtime.master.in_cluster import in_a_pod
from elastic_runtime.master.journal import Journal
from elastic_runtime.platform.kubernetes.belongings import PLACEHOLDER
from elastic_runtime.platform.kubernetes.connection import Connection, configuration
from elastic_runtime.platform.kubernetes.errors import Forbidden
from elastic_runtime.platform.kubernetes.manifest import to_yaml
from elastic_runtime.platform.kubernetes.objects import Blueprint
from elastic_runtime.platform.kubernetes.submission import by_hand
from elastic_runtime.platform.pods import PodSpec, Role, pod_name
from elastic_runtime.spec.job import JobSpec
from tests.cluster.kit.cluster import PATIENCE_SECONDS
from tests.cluster.kit.commands import until
from tests.cluster.kit.namespace import Namespace
from tests.platform_contract import ended

ROLE, BINDING = yaml.safe_load_all(
    (Path(__file__).parents[2] / "manifests" / "elasticdl-rbac.yaml").read_text()
)
RIGHTS = {(kind, verb) for rule in ROLE["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
pytestmark = pytest.mark.timeout(900)  # each wait has its own, shorter limit
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


class Account:
    """The service account `default` of a namespace; this process is it."""

    def __init__(self, namespace: Namespace, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.namespace = namespace
        admin = yaml.safe_load(namespace.cluster.kubeconfig.read_text())
        admin["users"][0]["user"] = {"token": namespace.kubectl("create", "token", "default").strip()}
        (folder / "kubeconfig").write_text(yaml.safe_dump(admin))
        monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
        self._line = Connection(configuration(force_kube_config_file=True), patience=60)

    def grant(self, rights: set[tuple[str, str]]) -> None:
        """Give it the manifest's role, but with these rights; return once the API knows of them."""
        before = self.rights(self.namespace.name)
        rules = [{"apiGroups": [""], "resources": [kind], "verbs": [verb]} for kind, verb in rights]
        self.namespace.apply({**copy.deepcopy(ROLE), "rules": rules}, copy.deepcopy(BINDING))
        whole = before | {("", kind, verb) for kind, verb in rights}
        granted = lambda: self.rights(self.namespace.name) == whole  # noqa: E731
        until(granted, what="the rights are granted", seconds=PATIENCE_SECONDS)

    def rights(self, namespace: str) -> set[tuple[str, str, str]]:
        """API group, resource and verb of all that the API says this account may do there."""
        asked = {"spec": {"namespace": namespace}}
        said = self._line.ask("POST", REVIEW, body=asked, kind="V1SelfSubjectRulesReview").status
        assert not said.incomplete
        return {
            (group, kind, verb)
            for rule in said.resource_rules
            for group in rule.api_groups
            for kind in rule.resources
            for verb in rule.verbs
        }

    def is_refused(self, method: str, place: str) -> bool:
        """Whether it is, by a real request."""
        try:
            self._line.ask(method, place, body=None if method == "GET" else {})
        except Forbidden as refusal:
            return "cannot" in str(refusal)
        return False


@pytest.fixture
def account(namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("ELASTICDL_POD", pod_name("j", Role.MASTER))
    monkeypatch.setenv("ELASTICDL_POD_IP", "10.0.0.1")
    monkeypatch.setenv("ELASTICDL_TOKEN", PLACEHOLDER)
    return Account(namespace, tmp_path, monkeypatch)


async def life(spec: JobSpec) -> None:
    """A job that was applied from a file: for all that belongs to nobody its master puts its own."""
    surroundings = in_a_pod(spec)
    platform, journal = surroundings.platform, Journal(surroundings.store)
    worker = pod_name("j", Role.WORKER, 0)
    try:
        journal.append("a job begins")
        await journal.commit()
        await platform.start(PodSpec(worker, "j", Role.WORKER, 0, ("sh", "-c", "echo it broke; exit 3")))
        end = await ended(platform, worker)
        assert [line async for line in platform.logs(worker)] == ["it broke"]
        assert end.detail == "exit code 3: it broke"
        await platform.stop(worker, 1)
    finally:
        await platform.close()
    await surroundings.forget(True)


@contextmanager
def first_warning(said: asyncio.Future[str]) -> Iterator[None]:
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


def refused_to(namespace: Namespace) -> str:
    """What is refused first in such a life, in the API's words; empty if nothing is."""
    small = {f"worker_resource_{what}": "cpu=10m,memory=16Mi" for what in ("request", "limit")}
    image = {"image_name": namespace.cluster.image("busybox"), "image_pull_policy": "IfNotPresent"}
    work = {"job_name": "j", "model_def": "m", "training_data": "/d", "namespace": namespace.name}
    spec = JobSpec.make({**work, **image, **small}, [])
    _, secret, service, *_ = by_hand(Blueprint.of(spec))
    namespace.kubectl("create", "--filename=-", given=to_yaml([secret, service]))

    async def run() -> str:
        warned: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        with first_warning(warned):
            living = asyncio.create_task(life(spec))
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


def test_with_the_rights_of_the_manifest_nothing_is_refused(account: Account) -> None:
    account.grant(RIGHTS)
    assert refused_to(account.namespace) == ""


@pytest.mark.parametrize(("kind", "verb"), sorted(RIGHTS))
def test_without_any_of_them_that_one_is_refused_and_the_manifest_named(account: Account, kind, verb) -> None:
    account.grant(RIGHTS - {(kind, verb)})
    said = refused_to(account.namespace)
    assert f'default" cannot {verb} resource "{kind}" in API group "" in the namespace' in said
    assert f"kubectl apply -n {account.namespace.name} -f manifests/elasticdl-rbac.yaml" in said


def test_the_manifest_gives_these_rights_alone_and_in_its_namespace_alone(account: Account) -> None:
    """Beside them there is what every account of a cluster may do: ask what it may do."""
    here, *elsewhere = account.namespace.name, "default", "kube-system"
    before = account.rights(here)
    assert {group for group, _, _ in before} == {"authentication.k8s.io", "authorization.k8s.io"}
    account.grant(RIGHTS)
    assert account.rights(here) - before == {("", kind, verb) for kind, verb in RIGHTS}
    assert [account.rights(namespace) for namespace in elsewhere] == [before, before]


def requests(under: str, **places: str) -> list[tuple[str, str]]:
    """Method and place of each request; `places` are those of a method."""
    return [(method, f"{under}/{place}") for method, found in places.items() for place in found.split()]


def same_in(namespace: str) -> list[tuple[str, str]]:
    """The requests that the manifest allows, in another namespace."""
    methods = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
    found = []
    for whole, verb in RIGHTS:
        kind, _, part = whole.partition("/")
        place = kind if verb in ("create", "list", "watch") else f"{kind}/x/{part}".rstrip("/")
        found.append((methods.get(verb, "GET"), f"/api/v1/namespaces/{namespace}/{place}"))
    return found


def test_what_the_manifest_does_not_allow_is_refused(account: Account) -> None:
    account.grant(RIGHTS)
    here = f"namespaces/{account.namespace.name}"
    refused = [
        *same_in("default"),
        *requests("/api/v1", GET="nodes namespaces pods secrets configmaps persistentvolumes"),
        *requests("/api/v1", POST="namespaces persistentvolumes", PATCH="nodes/node-0"),
        *requests("/apis/rbac.authorization.k8s.io/v1", GET="clusterroles", POST="clusterrolebindings"),
        *requests(f"/apis/rbac.authorization.k8s.io/v1/{here}", POST="roles rolebindings"),
        *requests(f"/apis/apps/v1/{here}", GET="deployments", POST="deployments daemonsets"),
        *requests(f"/apis/batch/v1/{here}", POST="jobs cronjobs"),
        *requests(f"/api/v1/{here}", GET="secrets secrets/x configmaps services events serviceaccounts"),
        *requests(f"/api/v1/{here}", GET="pods/x/exec", POST="pods/x/exec pods/x/attach pods/x/eviction"),
        *requests(f"/api/v1/{here}", POST="serviceaccounts serviceaccounts/default/token"),
        *requests(f"/api/v1/{here}", PATCH="pods/x pods/x/ephemeralcontainers secrets/x services/x"),
        *requests(f"/api/v1/{here}", DELETE="pods secrets services configmaps", PUT="configmaps/x"),
    ]
    assert [request for request in refused if not account.is_refused(*request)] == []
    assert not account.is_refused("GET", f"/api/v1/{here}/pods")
