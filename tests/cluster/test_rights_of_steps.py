"""The rights of pipelines' steps: those beyond a master's on Kubeflow Pipelines, and all of them on Argo.

Without any one of them the step that trains is refused it, or does not know that it will be run again; and
Argo's executor cannot tell what came out of a step.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.spec.job import JobSpec
from elastic_runtime.steps import in_cluster
from elastic_runtime.steps.successor import will_be_run_again
from tests.cluster.account import Account, Right, documents, refused_in, rights_of, small_job
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster
from tests.cluster.kit.commands import until
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.objects import pod
from tests.cluster.test_rights import life

pytestmark = pytest.mark.timeout(900)  # each wait has its own, shorter limit
ACCOUNTS = {
    "default": documents("elasticdl-rbac.yaml", "elasticdl-steps-rbac.yaml"),
    "elasticdl": documents("elasticdl-argo-rbac.yaml"),
}
"""Whom these manifests give their rights to, on Kubeflow Pipelines and on Argo."""
OF_A_STEP = {"default": "elasticdl-steps", "elasticdl": "elasticdl-train-step"}
_jobs = (f"j{number}" for number in itertools.count(1))


def rights(account: str, role: str) -> set[Right]:
    """Those of a role in the account's manifests."""
    return rights_of(next(each for each in ACCOUNTS[account] if each["metadata"]["name"] == role))


EACH = [(account, right) for account, role in OF_A_STEP.items() for right in sorted(rights(account, role))]


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Iterator[Namespace]:
    """Where a workflow goes on, and the pod of its step runs."""
    made = Namespace.create(cluster, f"steps-{os.getpid()}")
    waits = {"name": "waits", "suspend": {}}
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
    held = {"suspend": True, "entrypoint": "waits", "templates": [waits]}
    made.apply({**workflow, "metadata": {"name": "w"}, "spec": held})
    step = pod("engine", cluster.image("busybox"), "sleep", "3600")
    uid = made.get("workflow", "w")["metadata"]["uid"]
    step["metadata"]["ownerReferences"] = [{**workflow, "name": "w", "uid": uid}]
    made.run(step)
    yield made
    made.delete()


def attempt(account: Account, monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[str, bool]:
    """What is refused first to a step that trains; whether it finds at its end that its workflow goes on."""
    (folder / "namespace").write_text(account.namespace.name)
    monkeypatch.setattr(in_cluster, "NAMESPACE_FILE", folder / "namespace")
    monkeypatch.setenv("KFP_POD_NAME", "engine")
    for name in ("ELASTICDL_TOKEN", "ELASTICDL_POD", "ELASTICDL_POD_IP"):
        monkeypatch.setenv(name, "")  # the step sets them
    goes_on = []

    async def step(spec: JobSpec) -> None:
        await asyncio.to_thread(in_cluster.take_the_masters_place, spec)
        await life(spec)
        goes_on.append(await asyncio.to_thread(will_be_run_again, spec.namespace))
        await asyncio.to_thread(in_cluster.end_pods, spec.job_name)

    spec = small_job(account.namespace, next(_jobs))
    return refused_in(lambda: step(spec)), goes_on == [True]


@pytest.mark.parametrize("name", ACCOUNTS)
def test_with_the_rights_of_its_manifests_nothing_is_refused_to_a_step(
    place: Namespace, name: str, monkeypatch, tmp_path
) -> None:
    account = Account(place, tmp_path, monkeypatch, name)
    account.grant(ACCOUNTS[name])
    assert attempt(account, monkeypatch, tmp_path) == ("", True)


@pytest.mark.parametrize(
    ("name", "right"), EACH, ids=lambda each: each if isinstance(each, str) else "-".join(each)
)
def test_without_any_right_of_a_step_that_one_is_missed(
    place: Namespace, name: str, right: Right, monkeypatch, tmp_path
) -> None:
    group, kind, verb = right
    account = Account(place, tmp_path, monkeypatch, name)
    account.grant(ACCOUNTS[name], but=right)
    said, goes_on = attempt(account, monkeypatch, tmp_path)
    if kind == "workflows":  # better to begin anew than to leave something behind
        assert (said, goes_on) == ("", False)
    else:
        assert f'{name}" cannot {verb} resource "{kind}" in API group "{group}" in the namespace' in said


def outcome(namespace: Namespace) -> Any:
    """What Argo knows at the end of a workflow whose only step says 42."""
    said = {"name": "said", "valueFrom": {"path": "/tmp/said"}}
    container = {"image": namespace.cluster.image("busybox"), "command": ["sh", "-c", "echo 42 > /tmp/said"]}
    step = {"name": "step", "container": container, "outputs": {"parameters": [said]}}
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"}}
    namespace.apply({**workflow, "spec": {"entrypoint": "step", "templates": [step]}})
    ends = lambda: namespace.get("workflow", "w").get("status", {}).get("finishedAt")  # noqa: E731
    until(ends, what="the workflow ends", seconds=PATIENCE_SECONDS)
    (node,) = namespace.get("workflow", "w")["status"]["nodes"].values()
    return node["phase"], [each.get("value") for each in node.get("outputs", {}).get("parameters", [])]


@pytest.mark.parametrize("verb", ["", *sorted(verb for _, _, verb in rights("elasticdl", "elasticdl-step"))])
def test_argos_executor_needs_its_rights_to_tell_what_came_out_of_a_step(
    namespace: Namespace, verb: str, monkeypatch, tmp_path
) -> None:
    account = Account(namespace, tmp_path, monkeypatch)
    account.grant(ACCOUNTS["elasticdl"], but=("argoproj.io", "workflowtaskresults", verb))
    assert (outcome(namespace) == ("Succeeded", ["42"])) is (not verb)
