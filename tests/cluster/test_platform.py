"""The contract of platforms, for pods of a cluster, and what happens to pods there only."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import math
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from elastic_runtime.platform.kubernetes import labels, patience, submission
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.objects import Blueprint, Owner, owner_of
from elastic_runtime.platform.kubernetes.platform import KubernetesPlatform
from elastic_runtime.platform.pods import ExitCause, Phase, PodSpec, Role, pod_name
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.steps import in_cluster
from tests.cluster.jobs import NOWHERE_AT_FIRST, SILENT_SECONDS
from tests.cluster.kit import faults
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.objects import pod
from tests.platform_contract import (
    LONG,
    PlatformContract,
    ended,
    in_phase,
    on,
    on_successor,
    reached,
    running,
    until_logged,
)

pytestmark = pytest.mark.timeout(900)  # each scenario has its own, shorter limit
JOB = {"job_name": "j", "model_def": "m", "training_data": "/d", "image_pull_policy": "IfNotPresent"}
SMALL = {"worker_resource_request": "cpu=10m,memory=16Mi", "worker_resource_limit": "cpu=1,memory=32Mi"}


class Pods:
    """A job in a namespace, with an anchor that owns its pods."""

    def __init__(self, namespace: Namespace, **options: str) -> None:
        image = namespace.cluster.image("busybox")
        values = {**JOB, **SMALL, "image_name": image, "namespace": namespace.name, **options}
        self._blueprint = Blueprint.of(JobSpec.make(values, []))
        self.api = Api.connect(namespace.name)
        self._anchor = owner_of(self.api.create_config_map(self._blueprint.anchor()))
        account = namespace.get("serviceaccount", "default")["metadata"]
        owner = Owner(kind="ServiceAccount", api_version="v1", name="default", uid=account["uid"])
        self.api.add_owner(self._anchor.name, owner)  # as a master's pod would: it must outlive the others
        self.api.create_secret(self._blueprint.secret("token", self._anchor))
        self.own_name = ""

    def platform(self) -> KubernetesPlatform:
        patient = self.api.patient(math.inf)
        return KubernetesPlatform(patient, self._blueprint, anchor=self._anchor, own_name=self.own_name)

    def spec(self, number: int, script: str) -> PodSpec:
        job = self._blueprint.spec.job_name
        name = pod_name(job, Role.WORKER, number)
        return PodSpec(name, job, Role.WORKER, number, ("sh", "-c", script), {}, "preempted")


@pytest.fixture
def make_pods(namespace: Namespace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", str(namespace.cluster.kubeconfig))
    made: list[Pods] = []

    def make(**options: str) -> Pods:
        made.append(Pods(namespace, **options))
        return made[-1]

    yield make
    for pods in made:
        pods.api.close()


class TestKubernetes(PlatformContract):
    @pytest.fixture
    def world(self, make_pods) -> Pods:
        return make_pods()


async def ended_after(platform, name, fault):
    """The pod's end, that a fault brings about while this waits for it."""
    end = asyncio.create_task(ended(platform, name))
    await asyncio.sleep(0)
    await asyncio.to_thread(fault)
    return await end


def test_a_pod_deleted_by_somebody_was_preempted(make_pods, namespace):
    world = make_pods()

    async def scenario(platform):
        ends = []
        for number, how in enumerate((["--wait=false"], ["--grace-period=0", "--force"])):
            spec = world.spec(number, LONG)
            await running(platform, spec)
            await until_logged(platform, spec.name, "on")
            delete = ("delete", "pod", spec.name, *how)
            ends.append(await ended_after(platform, spec.name, lambda do=delete: namespace.kubectl(*do)))
        return ends

    drained, forced = on(world, scenario)
    assert drained.cause is ExitCause.DRAINED
    assert (forced.cause, forced.detail) == (ExitCause.PREEMPTED, "deleted")


def test_a_pod_that_takes_more_memory_than_its_limit_is_said_to_have_done_so(make_pods):
    world = make_pods()

    async def scenario(platform):
        spec = world.spec(0, "x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo ${#x}")
        await platform.start(spec)
        return await ended(platform, spec.name)

    pod = on(world, scenario)
    assert (pod.cause, pod.detail) == (ExitCause.OUT_OF_MEMORY, "killed for memory: its limit is 32Mi")


def test_an_evicted_pod_was_preempted(make_pods, cluster, namespace):
    world = make_pods()

    async def scenario(platform):
        spec = world.spec(0, LONG)
        await running(platform, spec)
        await until_logged(platform, spec.name, "on")
        evict = functools.partial(faults.evict, cluster, spec.name, namespace=namespace.name)
        return await ended_after(platform, spec.name, evict)

    pod = on(world, scenario)
    assert pod.cause is ExitCause.PREEMPTED
    assert pod.detail.startswith("evicted")


def test_a_pod_that_made_room_for_a_more_urgent_one_was_preempted(make_pods, cluster):
    world = make_pods(worker_resource_request="cpu=100m,memory=16Mi")

    async def scenario(platform):
        spec = world.spec(0, LONG)
        node = (await running(platform, spec)).detail.removeprefix("on ")
        await until_logged(platform, spec.name, "on")
        room = await asyncio.to_thread(faults.free, cluster, node)
        end = asyncio.create_task(ended(platform, spec.name))
        with contextlib.ExitStack() as stack:
            urgent = faults.preempted(cluster, node, millicores=room + 50)
            await asyncio.to_thread(stack.enter_context, urgent)
            return await end

    pod = on(world, scenario)
    assert pod.cause is ExitCause.PREEMPTED
    assert pod.detail.startswith("preempted by a more urgent pod")


def test_a_pod_that_its_node_says_nothing_of_is_given_up_and_made_anew(make_pods, monkeypatch, tmp_path):
    monkeypatch.setattr(patience, "SILENT_SECONDS", SILENT_SECONDS)
    (rules := tmp_path / "spec.py").write_text(NOWHERE_AT_FIRST)
    world = make_pods(cluster_spec=str(rules))

    async def scenario(platform):
        spec, watch = world.spec(0, LONG), await platform.watch()
        await platform.start(spec)
        lost = await in_phase(watch, spec.name, Phase.ENDED)
        monkeypatch.setattr(patience, "SILENT_SECONDS", 3600.0)  # a node that there is may be slow
        return lost, await running(platform, spec)

    lost, again = on(world, scenario)
    assert lost.cause is ExitCause.NODE_LOST
    assert re.search(r"nowhere-\w+ has said nothing of it for 20 s", lost.detail)
    assert again.detail.startswith("on node-")


def test_an_image_that_does_not_exist_is_waited_for_and_then_given_up(make_pods, monkeypatch):
    monkeypatch.setattr(patience, "IMAGE_SECONDS", 3.0)
    world = make_pods(image_name="127.0.0.1:1/no/such:image")

    async def scenario(platform):
        spec, watch = world.spec(0, "true"), await platform.watch()
        await platform.start(spec)
        waiting = await in_phase(watch, spec.name, Phase.PENDING)
        pod = await in_phase(watch, spec.name, Phase.ENDED)
        await platform.stop(spec.name, 1)
        return waiting, pod, await platform.list(ended=True)

    waiting, pod, left = on(world, scenario)
    assert waiting.phase is Phase.PENDING
    assert pod.cause is ExitCause.NEVER_STARTED
    assert "the image 127.0.0.1:1/no/such:image cannot be pulled" in pod.detail
    assert left == []


def test_what_the_kubelet_itself_ends_or_cannot_begin_is_judged_by_its_word(make_pods):
    """One pod writes more than its limit, and one is to run what there is not."""
    world = make_pods(worker_resource_limit="cpu=1,memory=32Mi,disk=10Mi")
    writes = "while true; do head -c 2000000 /dev/zero >>/tmp/much; sleep 0.1; done"

    async def scenario(platform):
        nothing = dataclasses.replace(world.spec(1, ""), command=("/no/such/program",))
        ends = [asyncio.create_task(ended(platform, each.name)) for each in (world.spec(0, ""), nothing)]
        for spec in (world.spec(0, writes), nothing):
            await platform.start(spec)
        return await asyncio.gather(*ends)

    wrote, never = on(world, scenario)
    assert wrote.cause is ExitCause.ERROR
    assert wrote.detail.startswith("evicted by its node: it wrote more than its limit: ")
    assert never.cause is ExitCause.NEVER_STARTED
    assert "/no/such/program" in never.detail


def test_a_pod_without_room_says_what_is_missing_and_starts_when_there_is_some(make_pods, cluster):
    world = make_pods(worker_resource_request="cpu=100m,memory=16Mi")
    names = [node.name for node in cluster.nodes]

    async def scenario(platform):
        spec = world.spec(0, LONG)
        with contextlib.ExitStack() as stack:
            for name in names:
                await asyncio.to_thread(stack.enter_context, faults.filled(cluster, name, but=50))
            await platform.start(spec)
            changes = (await platform.watch()).states()
            said = await anext(pod.detail async for pod in changes if pod.detail)
            await asyncio.to_thread(stack.close)
        return said, await reached(platform, spec.name, Phase.RUNNING)

    said, pod = on(world, scenario)
    assert "no node can take it" in said
    assert "Insufficient cpu" in said
    assert pod.phase is Phase.RUNNING


def test_a_pod_on_a_lost_node_is_given_up_though_its_node_says_nothing(make_pods, cluster):
    world = make_pods()

    async def scenario(platform):
        spec = world.spec(0, LONG)
        pod = await running(platform, spec)
        node = pod.detail.removeprefix("on ")
        with contextlib.ExitStack() as stack:
            end = asyncio.create_task(ended(platform, spec.name))
            await asyncio.to_thread(stack.enter_context, faults.lost(cluster, node))
            try:
                lost = await end
                again = await running(platform, spec)
            finally:
                await asyncio.to_thread(stack.close)
            return node, lost, again

    node, lost, again = on(world, scenario)
    assert lost.cause is ExitCause.NODE_LOST
    assert again.detail.removeprefix("on ") != node


HASTY = """
class Cluster:
    def with_pod(self, pod):
        pod.spec.node_name, pod.spec.termination_grace_period_seconds = "{node}", 1
        return pod

    def with_service(self, service):
        return service


cluster = Cluster()
"""


def test_what_was_on_a_lost_node_can_be_removed_while_it_is_lost(
    make_pods, cluster, namespace, monkeypatch, tmp_path
):
    """By the step that cleans up and by `elasticdl job clean`, before the cluster has noticed the loss."""
    node = cluster.nodes[-1].name
    (rules := tmp_path / "spec.py").write_text(HASTY.format(node=node))
    step, command = (make_pods(job_name=job, cluster_spec=str(rules)) for job in ("j", "k"))

    async def begin(platform, spec):
        await running(platform, spec)
        await platform.close()

    for world in (step, command):
        on_successor(world, functools.partial(begin, spec=world.spec(0, LONG)))
    (here := tmp_path / "namespace").write_text(namespace.name)
    monkeypatch.setattr(in_cluster, "NAMESPACE_FILE", here)
    with faults.lost(cluster, node), ThreadPoolExecutor(2) as both:
        cleaned = both.submit(in_cluster.end_pods, "j")
        both.submit(submission.remove, command.api, "k").result()
        assert cleaned.result() == [step.spec(0, "").name]
        assert [pod.metadata.name for pod in step.api.list_pods(labels.ANY_JOB).items] == []


def test_what_happens_while_the_api_server_is_away_is_told_when_it_is_back(make_pods, cluster, namespace):
    world = make_pods()

    async def scenario(platform):
        short, long = world.spec(0, LONG), world.spec(1, LONG)
        await running(platform, short)
        await running(platform, long)
        end = asyncio.create_task(ended(platform, short.name))
        with contextlib.ExitStack() as stack:
            await asyncio.to_thread(stack.enter_context, faults.api_server_stopped(cluster))
            faults.kill({"ELASTICDL_POD": short.name, "ELASTICDL_NAMESPACE": namespace.name})
            start = asyncio.create_task(platform.start(world.spec(2, LONG)))
            done, _ = await asyncio.wait([start], timeout=5)
            assert not done
            await asyncio.to_thread(stack.close)
        await start
        return await end, await reached(platform, world.spec(2, "").name, Phase.RUNNING)

    short, late = on(world, scenario)
    assert short.exit_code == 137
    assert late.phase is Phase.RUNNING


def test_a_full_quota_is_waited_out(make_pods, namespace):
    world = make_pods()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "1"}},
    }

    async def scenario(platform):
        namespace.apply(quota)
        namespace.wait("--for=jsonpath={.status.hard.pods}=1", "resourcequota/q")
        await running(platform, world.spec(0, LONG))
        waiting = asyncio.create_task(reached(platform, world.spec(1, "").name, Phase.PENDING))
        await asyncio.sleep(0)
        start = asyncio.create_task(platform.start(world.spec(1, LONG)))
        said = (await waiting).detail
        await platform.stop(world.spec(0, "").name, 1)
        await start
        return said

    assert "exceeded quota" in on(world, scenario)


def test_a_master_that_is_being_deleted_starts_nothing_more(make_pods, namespace):
    """`kubectl delete pod -l` deletes it together with its pods: nothing may come back."""
    world = make_pods()
    master = pod("elasticdl-j-master", namespace.cluster.image("busybox"), "sleep", "600")
    master["metadata"]["labels"] = labels.labels("j", Role.MASTER, 0)
    master["spec"]["terminationGracePeriodSeconds"] = 5
    namespace.run(master)

    async def scenario(platform):
        await running(platform, world.spec(0, LONG))
        delete = ("delete", "pod", "-l", "elasticdl_job_name=j", "--wait=false")
        await ended_after(platform, world.spec(0, "").name, lambda: namespace.kubectl(*delete))
        made = await platform.start(world.spec(1, LONG))
        return made, await platform.list()

    world.own_name = "elasticdl-j-master"
    made, left = on(world, scenario)
    assert made.phase is Phase.PENDING
    assert left == []
