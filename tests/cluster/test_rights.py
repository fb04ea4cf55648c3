"""The rights of `manifests/elasticdl-rbac.yaml`: each one is needed, and they are all there is.

A life is all that a master asks of the API, from finding itself in a pod to a job that succeeded, asked by
the classes that ask it there, and as the service account whose rights these are. With all of them nothing is
refused; without any one of them that one is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic_runtime.master.in_cluster import in_a_pod
from elastic_runtime.master.journal import Journal
from elastic_runtime.platform.kubernetes.belongings import PLACEHOLDER
from elastic_runtime.platform.kubernetes.manifest import to_yaml
from elastic_runtime.platform.kubernetes.objects import Blueprint
from elastic_runtime.platform.kubernetes.submission import by_hand
from elastic_runtime.platform.pods import PodSpec, Role, pod_name
from elastic_runtime.spec.job import JobSpec
from tests.cluster.account import Account, documents, refused_in, rights_of, small_job
from tests.cluster.kit.namespace import Namespace
from tests.platform_contract import ended

MANIFEST = documents("elasticdl-rbac.yaml")
RIGHTS = rights_of(MANIFEST[0])
pytestmark = pytest.mark.timeout(900)  # each wait has its own, shorter limit


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
    job = spec.job_name
    worker = pod_name(job, Role.WORKER, 0)
    try:
        journal.append("a job begins")
        await journal.commit()
        await platform.start(PodSpec(worker, job, Role.WORKER, 0, ("sh", "-c", "echo it broke; exit 3")))
        end = await ended(platform, worker)
        assert [line async for line in platform.logs(worker)] == ["it broke"]
        assert end.detail == "exit code 3: it broke"
        await platform.stop(worker, 1)
    finally:
        await platform.close()
    await surroundings.forget(True)


def refused_to(namespace: Namespace) -> str:
    """What is refused first in such a life, in the API's words; empty if nothing is."""
    spec = small_job(namespace)
    _, secret, service, *_ = by_hand(Blueprint.of(spec))
    namespace.kubectl("create", "--filename=-", given=to_yaml([secret, service]))
    return refused_in(lambda: life(spec))


def test_with_the_rights_of_the_manifest_nothing_is_refused(account: Account) -> None:
    account.grant(MANIFEST)
    assert refused_to(account.namespace) == ""


@pytest.mark.parametrize(("group", "kind", "verb"), sorted(RIGHTS))
def test_without_any_of_them_that_one_is_refused_and_the_manifest_named(account, group, kind, verb) -> None:
    account.grant(MANIFEST, but=(group, kind, verb))
    said = refused_to(account.namespace)
    assert f'default" cannot {verb} resource "{kind}" in API group "{group}" in the namespace' in said
    assert f"kubectl apply -n {account.namespace.name} -f manifests/elasticdl-rbac.yaml" in said


def test_the_manifest_gives_these_rights_alone_and_in_its_namespace_alone(account: Account) -> None:
    """Beside them there is what every account of a cluster may do: ask what it may do."""
    here, *elsewhere = account.namespace.name, "default", "kube-system"
    before = account.rights(here)
    assert {group for group, _, _ in before} == {"authentication.k8s.io", "authorization.k8s.io"}
    account.grant(MANIFEST)
    assert account.rights(here) - before == RIGHTS
    assert [account.rights(namespace) for namespace in elsewhere] == [before, before]


def requests(under: str, **places: str) -> list[tuple[str, str]]:
    """Method and place of each request; `places` are those of a method."""
    return [(method, f"{under}/{place}") for method, found in places.items() for place in found.split()]


def same_in(namespace: str) -> list[tuple[str, str]]:
    """The requests that the manifest allows, in another namespace."""
    methods = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
    found = []
    for _, whole, verb in RIGHTS:
        kind, _, part = whole.partition("/")
        place = kind if verb in ("create", "list", "watch") else f"{kind}/x/{part}".rstrip("/")
        found.append((methods.get(verb, "GET"), f"/api/v1/namespaces/{namespace}/{place}"))
    return found


def test_what_the_manifest_does_not_allow_is_refused(account: Account) -> None:
    account.grant(MANIFEST)
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
