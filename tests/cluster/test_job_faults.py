"""What befalls a job in a cluster: it ends right, every record accounted for, nothing left.

What each fault cost is measured on the way: the rows of `docs/faults.md`. A job that has recovered from one
fault takes the next, so that there is not a start of TensorFlow for each.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.cli.main import main
from elastic_runtime.platform.kubernetes import patience
from tests.cluster.fault_table import FaultTable, Row
from tests.cluster.jobs import NOWHERE_AT_FIRST, ON_A_VOLUME, SECONDS, SILENT_SECONDS, ClusterJob
from tests.cluster.kit import faults
from tests.cluster.kit.namespace import Namespace

pytestmark = [pytest.mark.timeout(1200)]  # each wait has its own, shorter limit

PACE, SLOW, SHARD = 0.04, 0.1, 16
SMALL_SHARDS = "--num_minibatches_per_task=1"
EPOCHS = 4  # twice as long as faults and their cures take on a machine at load 50
PLENTY = f"--num_epochs={EPOCHS}"
STILL_SECONDS = 10 if "ELASTICDL_WRITE_FAULTS" in os.environ else 120
"""As long as training may stand still when nothing of the workers' or parameter servers' is lost, where that
is measured, for the page. Among other tests everything waits for the processor, but not as long as for a
master that nobody replaces."""
ANOTHER = r"the master is lost \(.*\): another one goes on"


@pytest.fixture(scope="module")
def table() -> Iterator[FaultTable]:
    made = FaultTable()
    yield made
    if place := os.environ.get("ELASTICDL_WRITE_FAULTS"):
        made.write(Path(place), seconds=PACE * SHARD, records=SHARD)


def delete(job: ClusterJob, pod: str) -> None:
    job.namespace.kubectl("delete", "pod", job.pod(pod), "--wait=false")


def evict(job: ClusterJob, pod: str) -> None:
    faults.evict(job.namespace.cluster, job.pod(pod), namespace=job.namespace.name)


def kill(job: ClusterJob, pod: str) -> None:
    """kill -9 of its main process."""
    faults.kill({"ELASTICDL_POD": job.pod(pod), "ELASTICDL_POD_UID": job.pods()[pod].metadata.uid})


def starve(job: ClusterJob, pod: str) -> None:
    """Small processes beside the main one take memory until the kernel kills the largest: the main one."""
    eat = (
        "for n in $(seq 100); do (head -c 20000000 /dev/zero; sleep 600) | tail -c 20000000 >/dev/null & done"
    )
    job.namespace.kubectl("exec", job.pod(pod), "--", "sh", "-c", f"{eat}; wait", check=False)


LOSSES = {"deleted": delete, "evicted": evict, "killed with -9": kill, "out of memory": starve}
LIMIT = "cpu=2,memory=1500Mi"
KILLED_FOR_MEMORY = r"killed for memory: its limit is 1500Mi"


def training(job: ClusterJob, workers: int = 2) -> ClusterJob:
    """The job, in the middle of its work."""
    job.pace(PACE)
    job.start().until_training(workers=workers)
    return job


def finish(job: ClusterJob, table: FaultTable, *, epochs: int = EPOCHS) -> str:
    job.pace(0)
    verdict = job.assert_right_end(epochs=epochs)
    table.over(job)
    return verdict


def test_a_worker_that_is_lost_is_replaced_and_its_records_are_trained(make_job, table) -> None:
    job = training(make_job("--num_workers=2", PLENTY, SMALL_SHARDS, f"--worker_resource_limit={LIMIT}"))
    for number, (how, fault) in enumerate(LOSSES.items()):
        with table.row(f"a worker: {how}", job) as row:
            fault(job, f"worker-{number}")
            row.said = job.until_said(rf"pod elasticdl-j-worker-{number} ended: .*")
            job.until_said(rf"worker elasticdl-j-worker-{number + 2} joined")
    assert re.search(KILLED_FOR_MEMORY, job.text())
    assert "4 workers relaunched" in finish(job, table)


def test_a_parameter_server_that_is_lost_comes_back_under_its_name_with_the_model(make_job, table) -> None:
    two = ("--num_workers=2", "--num_ps_pods=2", PLENTY, SMALL_SHARDS)
    job = training(make_job(*two, f"--ps_resource_limit={LIMIT}"))
    for times, (how, fault) in enumerate(LOSSES.items(), 1):
        with table.row(f"a parameter server: {how}", job) as row:
            fault(job, "ps-1")
            row.said = job.until_said(r"pod elasticdl-j-ps-1 ended: .*", times=times)
            job.until_said(r"the model is (back at|that of)", times=times)
            job.until_said(r"pod elasticdl-j-ps-1 runs", times=times + 1)
    assert re.search(KILLED_FOR_MEMORY, job.text())
    finish(job, table)
    assert "back at its beginning" not in job.text()


def test_a_master_that_is_lost_is_replaced_and_its_pods_go_on(make_job, table) -> None:
    often = (SMALL_SHARDS, "--log_loss_steps=1")
    job = training(make_job("--num_workers=2", PLENTY, *often, f"--master_resource_limit={LIMIT}"))
    before = {name: pod.metadata.uid for name, pod in job.pods().items()}
    for times, (how, fault) in enumerate(LOSSES.items(), 1):
        with table.row(f"the master: {how}", job) as row:
            began = time.time()
            fault(job, "master")
            row.said = job.until_said(ANOTHER, times=times)
            job.until_said(r"goes on where it was left: [1-9]\d* records done", times=times)
            job.until_said(r"worker elasticdl-j-worker-\d (is back|joined)", times=2 + 2 * times)
        assert steps_within(job, *without_master(job, began)) > 0, job.report()
        assert row.still < STILL_SECONDS, job.report()
    assert re.search(KILLED_FOR_MEMORY, job.text())
    after = {name: pod.metadata.uid for name, pod in job.pods().items()}
    assert {name for name in after if before.get(name) != after[name]} == {"master"}
    finish(job, table)


def test_a_lost_node_costs_what_was_on_it(make_job, cluster, table) -> None:
    """A parameter server alone; then the master with it, which the next has to notice; then both workers.

    The journal is on a volume, which the next master has, too. So work goes on while the API server is away,
    too: shards are finished and given out, as short as they are.
    """
    first, second, third = (node.name for node in cluster.nodes)
    rules = {
        "master_pod_spec": prefer(first, second),
        "ps_pod_spec": prefer(second, first),
        "worker_pod_spec": prefer(third, second),
    }
    options = ("--num_workers=2", PLENTY, SMALL_SHARDS, f"--cluster_spec_json={json.dumps(rules)}")
    job = training(make_job(*options, ON_A_VOLUME))
    for node, expected in (
        (second, {"ps-0"}),
        (first, {"master", "ps-0"}),
        (third, {"worker-0", "worker-1"}),
    ):
        there = {name for name, pod in job.pods().items() if pod.spec.node_name == node}
        assert there == expected
        said = len(re.findall(r"ended: node_lost", job.text()))
        what = f"the node of {' and '.join(sorted(there))}: lost"
        with table.row(what, job) as row, faults.lost(cluster, node):
            if "master" in there:
                row.said = job.until_said(ANOTHER)
                job.until_said(r"goes on where it was left")
            else:
                row.said = job.until_said(r"pod \S+ ended: node_lost.*", times=said + len(there))
            again = {name for name in there if "worker" not in name}
            job.until(lambda again=again: again <= running(job), "all run again")
    job.until(lambda: len(at_work(job)) == 2, "the workers are at work again")
    with table.row("the API server: away for 20 s, the journal on a volume", job) as row:
        with faults.api_server_stopped(cluster):
            began = time.time()
            with pytest.raises(subprocess.TimeoutExpired):
                job.process.wait(20)
            there = [moment for moment in job.accepted() if moment > began]
        row.said = job.until_said(r"the API server of the cluster is away .*")
    assert len(there) > 6, job.report()  # more than two workers had in hand
    assert row.still < STILL_SECONDS, job.report()
    finish(job, table)


def at_work(job: ClusterJob) -> list[str]:
    """The workers that have finished a shard a moment ago."""
    return [name for name in running(job) if name.startswith("worker") and job.accepted(name)]


def running(job: ClusterJob) -> set[str]:
    """The job's pods that are not on their way in or out."""
    return {
        name
        for name, pod in job.pods().items()
        if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
    }


def prefer(*nodes: str, operator: str = "In") -> dict[str, Any]:
    """The first of these nodes that there is, else any; or any but these ("NotIn"), else one of these.

    The first counts so much more that no wish of the scheduler's outweighs it.
    """
    wishes = []
    for number, node in enumerate(nodes):
        term = {"key": "kubernetes.io/hostname", "operator": operator, "values": [node]}
        wishes.append({"weight": 1 if number else 100, "preference": {"matchExpressions": [term]}})
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}}


def apart(rules: dict[str, Any]) -> dict[str, Any]:
    """And workers beside each other only where it cannot be otherwise."""
    workers = {"matchLabels": {"elasticdl-replica-type": "worker"}}
    term = {"labelSelector": workers, "topologyKey": "kubernetes.io/hostname"}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    return {"affinity": {**rules["affinity"], "podAntiAffinity": wish}}


def test_a_cut_line_and_a_drained_node_send_the_work_elsewhere(make_job, cluster, table) -> None:
    first = cluster.nodes[0].name
    rules = {f"{role}_pod_spec": prefer(first) for role in ("master", "ps")}
    rules["worker_pod_spec"] = apart(prefer(first, operator="NotIn"))
    options = ("--num_workers=2", PLENTY, SMALL_SHARDS, f"--cluster_spec_json={json.dumps(rules)}")
    job = training(make_job(*options, "--lease_timeout=10"))
    node, other = job.node_of("worker-0"), job.node_of("worker-1")
    assert len({first, node, other}) == 3
    job.until(lambda: job.accepted("worker-1"), "it is at work: one that has no shard yet cannot be too slow")
    line = faults.partitioned(cluster, first, other)
    with table.row("a worker: no line to the master and the parameter server", job) as row, line:
        row.said = job.until_said(r"elasticdl-j-worker-1 made no progress for .*")
    with table.row("the node of a worker: drained", job) as row, faults.drained(cluster, node):
        row.said = job.until_said(r"pod elasticdl-j-worker-0 ended: .*")
        job.until_said(r"worker elasticdl-j-worker-2 joined")
        assert job.node_of("worker-2") != node
    finish(job, table)


def test_workers_without_parameter_servers_go_on_from_the_one_that_is_left(make_job, cluster, table) -> None:
    """Lost is always the oldest, from whom others have the model; first with its node, which tells nobody."""
    first = cluster.nodes[0].name
    rules = {"master_pod_spec": prefer(first), "worker_pod_spec": apart(prefer(first, operator="NotIn"))}
    options = ("--distribution_strategy=AllreduceStrategy", "--num_workers=2", SMALL_SHARDS)
    epochs = 2 * EPOCHS
    more = (f"--num_epochs={epochs}", f"--cluster_spec_json={json.dumps(rules)}")
    job = training(make_job(*options, *more, f"--worker_resource_limit={LIMIT}"))
    node = job.node_of("worker-0")
    assert len({first, node, job.node_of("worker-1")}) == 3
    with table.row("AllReduce, the node of the oldest worker: lost", job) as row, faults.lost(cluster, node):
        row.said = job.until_said(r"pod elasticdl-j-worker-0 ended: node_lost.*")
        job.until_said(r"world \d+: 2 workers train together.* with worker-2")  # which has the model now
    for number, how in enumerate(("deleted", "killed with -9"), 1):  # with a goodbye and without
        with table.row(f"AllReduce, the oldest worker: {how}", job) as row:
            LOSSES[how](job, f"worker-{number}")
            row.said = job.until_said(rf"pod elasticdl-j-worker-{number} ended: .*")
            job.until_said(rf"world \d+: 2 workers train together.* with worker-{number + 2}")
    with table.row("AllReduce, the master: deleted", job) as row:
        delete(job, "master")
        row.said = job.until_said(ANOTHER)
        job.until_said(r"goes on where it was left: [1-9]\d* records done")
    finish(job, table, epochs=epochs)
    assert "back at its beginning" not in job.text()


def test_training_goes_on_while_the_masters_node_is_lost_and_while_the_api_server_is_away(
    make_job, cluster, table
) -> None:
    """With the shards that the workers hold: three each, of which two last for half a minute here.

    In this order: a scheduler that has just found its API server again does not know at once which nodes are
    lost, and may bind the next master to the one that is.
    """
    first, second, third = (node.name for node in cluster.nodes)
    rules = {
        "master_pod_spec": prefer(first, second),
        "ps_pod_spec": prefer(second, third),
        "worker_pod_spec": prefer(third, second),
    }
    large = ("--num_workers=2", PLENTY, "--num_minibatches_per_task=10", "--log_loss_steps=1")
    job = make_job(*large, f"--cluster_spec_json={json.dumps(rules)}")
    job.pace(SLOW)
    job.start().until_said(r"worker elasticdl-\S+ joined", times=2)
    job.until(lambda: runs(job, "worker-0"), "its node has said that it runs: earlier it gives no log")
    job.until(lambda: len(steps(job)) > 3, "steps are made")
    there = {name: pod.spec.node_name for name, pod in job.pods().items()}
    before = uids_of_others(job)
    assert there.pop("master") == first
    assert first not in there.values()
    what = "the node of the master alone: lost, with shards that last"
    with stepping(job, table, what) as row, faults.lost(cluster, first):
        began = time.time()
        row.said = job.until_said(ANOTHER)
        job.until_said(r"goes on where it was left")
    assert steps_within(job, *without_master(job, began)) > 1, job.report()
    job.pace(SLOW)
    with stepping(job, table, "the API server: away for 20 s") as row:
        with faults.api_server_stopped(cluster):
            began = time.time()
            with pytest.raises(subprocess.TimeoutExpired):
                job.process.wait(20)
        row.said = job.until_said(r"the API server of the cluster is away .*")
        job.until_said(r"the API server answers again")
    assert steps_within(job, began, began + 20) > 1, job.report()
    assert uids_of_others(job) == before
    finish(job, table)
    # At the end the master itself deletes what takes long to go, and then that is "preempted (deleted)".
    lost = r"pod elasticdl-j-(ps|worker)-\d ended: (preempted|node_lost|error)(?! \(deleted\))"
    assert not re.search(lost, job.text())


@contextlib.contextmanager
def stepping(job: ClusterJob, table: FaultTable, done: str) -> Iterator[Row]:
    """A fault while which workers make steps, but cannot tell the master of a shard."""
    with table.row(done, job) as row:
        yield row
        moments = [row.began, *(moment for moment in steps(job) if moment > row.began), time.time()]
        job.pace(PACE)
    row.still = max(after - before for before, after in itertools.pairwise(moments))
    assert row.still < STILL_SECONDS, job.report()


def uids_of_others(job: ClusterJob) -> dict[str, str]:
    """Of the pods that are not the master's."""
    return {name: pod.metadata.uid for name, pod in job.pods().items() if name != "master"}


def runs(job: ClusterJob, pod: str) -> bool:
    found = job.pods().get(pod)
    return found is not None and found.status.phase == "Running"


def steps(job: ClusterJob, worker: str = "worker-0") -> list[float]:
    """When a worker told the loss of each of its steps."""
    return said_at([*job.api.pod_log(job.pod(worker))], " Loss = ")


def said_at(lines: list[str], words: str = "") -> list[float]:
    """When a pod wrote these of its lines."""
    times = [re.match(rf"\[(\S+ \S+),(\d+)\] .*{words}", line) for line in lines]
    return [
        datetime.strptime(f"{each[1]}.{each[2]}+0000", "%Y-%m-%d %H:%M:%S.%f%z").timestamp()
        for each in times
        if each
    ]


def without_master(job: ClusterJob, began: float) -> tuple[float, float]:
    """From the last word of the lost master, or the fault if that came later, to its successor's first."""
    *_, before, after = (said_at(part.splitlines()) for part in re.split(ANOTHER, job.text()))
    return max(began, *before[-1:]), after[0]


def steps_within(job: ClusterJob, since: float, until: float) -> int:
    """How many steps the more diligent of two workers made then."""
    workers = ("worker-0", "worker-1")
    return max(sum(since < moment < until for moment in steps(job, worker)) for worker in workers)


def test_a_node_that_says_nothing_and_an_image_that_does_not_exist_are_given_up(
    make_job, table, monkeypatch, capsys, tmp_path
) -> None:
    """One master after the other; in this process, so that nobody has to wait for minutes."""
    monkeypatch.setattr(patience, "IMAGE_SECONDS", 3.0)
    monkeypatch.setattr(patience, "SILENT_SECONDS", SILENT_SECONDS)
    (rules := tmp_path / "spec.py").write_text(NOWHERE_AT_FIRST)
    for options in ((), ("--detach",)):
        image = "--image_name=127.0.0.1:1/no/such:image"
        job = make_job("--num_workers=1", image, f"--cluster_spec={rules}", *options)
        monkeypatch.setenv("KUBECONFIG", job.environment()["KUBECONFIG"])
        with pytest.raises(SystemExit) as ended:
            main(job.command[3:])
        assert ended.value.code == 1
        output, error = capsys.readouterr()
        lost, *more = re.findall(ANOTHER, output)
        assert re.search(r"its node is lost: nowhere-\w+ has said nothing of it", lost)
        assert all("has said nothing of it" in each for each in more)  # nor has a node that is too busy
        said = re.search(r"the master's pod waits: the image \S+ cannot be pulled", output)
        assert said, output
        assert "the image 127.0.0.1:1/no/such:image cannot be pulled" in error.splitlines()[-1]
        assert job.job("clean").returncode == 0
        job.until_gone()
    table.note("the image: does not exist", said[0])
    table.over(job)


def pods_told(job: ClusterJob) -> list[dict[str, str]]:
    """By `elasticdl job pods`."""
    told: list[dict[str, str]] = json.loads(job.job("pods", "--json").stdout)
    return told


def test_a_request_that_fits_nowhere_waits_and_goes_on_when_a_node_comes_back(
    make_job, cluster, table
) -> None:
    first, second, third = (node.name for node in cluster.nodes)
    job = make_job("--num_workers=1", "--worker_resource_request=cpu=300m,memory=1Gi")
    job.pace(PACE)  # already: cured, it may begin long before the cure has returned
    row_of_it = table.row("a worker's request: fits on no node, until one comes back", job)
    with faults.filled(cluster, first, but=240), faults.filled(cluster, second, but=240), row_of_it as row:
        with faults.lost(cluster, third):
            cluster.wait("--for=jsonpath={.spec.taints[?(@.effect=='NoExecute')].key}", f"node/{third}")
            job.start()
            row.said = job.until_said(
                r"pod elasticdl-j-worker-0 waits: no node can take it: .*Insufficient cpu"
            )
            [worker] = [each for each in pods_told(job) if each["role"] == "worker"]
            assert worker["waits_for"].startswith("no node can take it"), worker
        row.cured()
        job.until_said(r"worker elasticdl-j-worker-0 joined")
        assert job.node_of("worker-0") == third
    finish(job, table, epochs=1)


def test_a_full_quota_is_said_and_waited_out_and_the_jobs_name_is_taken_meanwhile(
    make_job, namespace, table
) -> None:
    allow(namespace, pods=2)
    job = make_job("--num_workers=1")
    job.pace(PACE)
    with table.row("the quota: full", job) as row:
        job.start()
        row.said = job.until_said(r"pod elasticdl-j-worker-0 waits: .*exceeded quota")
        twice = job.again()
        assert twice.returncode == 2
        said = re.search(r"a job of this name is there already, its master is running", twice.stderr)
        assert said, twice.stderr
        allow(namespace, pods=9)
        row.cured()
    table.note("a job of the same name: runs already", said[0])
    finish(job, table, epochs=1)


def allow(namespace: Namespace, *, pods: int) -> None:
    """So many pods from now on."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    namespace.apply({**quota, "spec": {"hard": {"pods": str(pods)}}})
    namespace.wait(f"--for=jsonpath={{.status.hard.pods}}={pods}", "resourcequota/q")


def test_without_rights_the_manifest_that_gives_them_is_named(make_job, namespace, table) -> None:
    job = make_job("--num_workers=1")
    namespace.kubectl("delete", "rolebinding", "--all")
    assert job.start().ends() == 1
    said = re.search(r'\S+ is forbidden: User "system:serviceaccount:\S+:default" cannot', job.text())
    assert said, job.text()
    assert f"kubectl apply -n {namespace.name} -f manifests/elasticdl-rbac.yaml" in job.text()
    table.note("the service account: without rights", said[0])
    assert job.job("clean").returncode == 0
    job.until_gone()
    table.over(job)


def test_a_claim_that_is_not_there_is_named_and_waited_for(make_job, namespace, cluster, table) -> None:
    job = make_job("--num_workers=1", "--volume=claim_name=missing,mount_path=/job")
    job.pace(PACE)
    with table.row("a volume's claim: not there", job) as row:
        job.start()
        waits = r"the master's pod waits: .*persistentvolumeclaim \"missing\" not found"
        row.said = job.until_said(waits)
        claimed(job, "missing")
        row.cured()
    try:
        finish(job, table, epochs=1)
    finally:
        cluster.kubectl("delete", "pv", namespace.name, "--wait=false")


def claimed(job: ClusterJob, name: str) -> None:
    """Make the claim, to a volume that is the job's folder."""
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    place = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(job.folder)}}
    owner = {"claimRef": {"name": name, "namespace": job.namespace.name}}
    wanted = {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": job.namespace.name}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": job.namespace.name}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    job.namespace.cluster.apply({**volume, "spec": {**common, **place, **owner}})
    job.namespace.apply({**claim, "spec": {**common, **wanted}})


def test_pods_without_a_master_for_good_end_themselves(make_job, table) -> None:
    job = training(make_job("--num_workers=2", "--orphan_timeout=5", PLENTY))
    job.abandon()  # nobody is there who would start the next
    delete(job, "master")
    row = table.note("the master: deleted, and nobody starts another (`--orphan_timeout=5`)")
    deadline = time.monotonic() + SECONDS
    while running(job):
        assert time.monotonic() < deadline, job.report()
        time.sleep(0.2)
    workers = [name for name in job.pods() if name.startswith("worker")]
    assert workers
    for worker in workers:  # not always 0 and 1: one that was too busy for 5 s was replaced before
        [row.said] = re.findall(r"no master at .*: ending", "\n".join(job.api.pod_log(job.pod(worker))))
    assert job.job("clean").returncode == 0
    job.until_gone()
    table.over(job)
