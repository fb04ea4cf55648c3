"""The tutorials, typed as their readers type them: what each promises is so on a real cluster.

What is changed of what they say is in the table that each terminal is given, and at the end of each page. All
jobs are ended by the tutorials themselves, or run to their end.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kit import builder, faults, images
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster
from tests.cluster.kit.commands import run, until
from tests.cluster.kit.namespace import Namespace
from tests.cluster.tutorial import SECONDS, Changes, Page, Run, Terminal, claim, in_the_cloud, open_to_pods
from tests.process.job.harness import free_port

pytestmark = [pytest.mark.timeout(3600)]  # each wait has its own, shorter limit
JOINED = r"worker elasticdl-\S+ joined"
RUNS = r"pod elasticdl-\S+ runs"
RECORDS = 6000
TENTH_OF_A_NODE = 390  # no worker fits beside a master
Type = Callable[[str, Changes], Terminal]


@pytest.fixture
def terminal(namespace: Namespace, tmp_path: Path) -> Iterator[Type]:
    """Opens the terminal of a reader of a page; at the end each of its changes must have been needed."""
    opened: list[Terminal] = []

    def open_page(page: str, changes: Changes) -> Terminal:
        opened.append(
            Terminal(Page(page), namespace, tmp_path / f"sources-{len(opened)}" / "elasticdl", changes)
        )
        return opened[-1]

    try:
        yield open_page
    finally:
        for each in opened:
            each.close()
    assert not [each.unused for each in opened if each.unused]


@pytest.fixture(scope="module")
def done() -> set[str]:
    """Blocks of which a test needs nothing but what an earlier one has brought about."""
    return set()


def registry(cluster: Cluster) -> str:
    return f"{cluster.site.registry}/tutorials"


def demo_image(cluster: Cluster) -> str:
    return f"{registry(cluster)}/elasticdl:demo"


def send_layers(cluster: Cluster, image: str) -> None:
    """As they are; who pushes an image that stands on them need not compress them, which takes minutes.

    Most are there already, under another name.
    """
    images.copy(builder.push(cluster, "tensorflow"), f"{registry(cluster)}/elasticdl:seed")
    builder.buildah(
        "push", "--quiet", "--disable-compression", image, f"{registry(cluster)}/elasticdl:layers"
    )


def accuracies(text: str) -> dict[int, float]:
    """By model version."""
    found = re.findall(r"Evaluation metrics\[v=(\d+)\]: \{'accuracy': ([\d.]+)\}", text)
    return {int(version): float(value) for version, value in found}


def assert_all_done(run: Run, *, epochs: int, records: int = RECORDS) -> None:
    """It ended well, and each record was done exactly once an epoch."""
    said = re.findall(r"epoch (\d+) of \d+ done: (\d+) records", run.ends())
    assert said == [(str(n + 1), str(records)) for n in range(epochs)], run.report()


def workers(terminal: Terminal, job: str, phase: str) -> int:
    pods = terminal.pods(job)
    return sum(pods[name] == phase for name in pods if name.startswith("worker-"))


# On your own computer


def local(terminal: Type, cluster: Cluster, tmp_path: Path, more: Changes) -> Terminal:
    data = tmp_path / "data"
    open_to_pods(data)
    return terminal(
        "local.md",
        {
            r"elasticdl data mnist data/mnist": f"elasticdl data mnist {data}/mnist --sample",
            r"\belasticdl:(?=mnist_)": f"{registry(cluster)}/elasticdl:",
            r"--image_pull_policy=Never": "--image_pull_policy=IfNotPresent",
            r"host_path=/data": f"host_path={data}",
            **more,
        },
    )


def test_a_job_with_a_parameter_server_learns_and_evaluates(
    terminal: Type, cluster: Cluster, tmp_path: Path
) -> None:
    base = builder.build("tensorflow")
    typing = local(
        terminal,
        cluster,
        tmp_path,
        {r"zoo init": f"zoo init --base_image={base}", r"--num_epochs=2": "--num_epochs=3"},
    )
    typing.type("data", "rights", "ps-image")
    builder.buildah("push", "--quiet", "--disable-compression", f"{registry(cluster)}/elasticdl:mnist_ps")
    training = typing.begin("ps-train")
    training.until_said(RUNS, times=2)
    listed = typing.type("ps-pods")
    assert re.findall(r"^elasticdl-test-mnist-(\S+) +1/1 +Running +0 ", listed, re.MULTILINE) == [
        "master",
        "ps-0",
        "worker-0",
    ]
    assert_all_done(training, epochs=3)
    evaluated = typing.type("ps-evaluation")
    lines = [line.rpartition("] ")[2] for line in evaluated.splitlines()]
    assert lines[0].endswith("Evaluation service started")
    assert lines[-1].endswith("Evaluation service stopped")
    found = accuracies(evaluated)
    assert list(found)[:5] == [50, 100, 150, 200, 250]
    assert found[250] >= 0.77
    assert "nothing is left of job test-mnist in namespace " in typing.type("ps-clean")
    assert typing.pods("test-mnist") == {}


def test_the_same_model_learns_by_allreduce(terminal: Type, cluster: Cluster, tmp_path: Path) -> None:
    typing = local(
        terminal,
        cluster,
        tmp_path,
        {
            r"--num_epochs=1": "--num_epochs=8 --log_loss_steps=1",
        },
    )
    typing.type("data", "rights", "allreduce-base", "allreduce-image")
    image = f"{registry(cluster)}/elasticdl:mnist_allreduce"
    builder.buildah("push", "--quiet", "--disable-compression", image)
    training = typing.begin("allreduce-train")
    training.until_said(JOINED, times=2)
    assert set(typing.pods("test-mnist-allreduce")) == {"master", "worker-0", "worker-1"}
    worker = "elasticdl-test-mnist-allreduce-worker-0"

    def losses(log: str) -> dict[int, float]:
        return {int(step): float(loss) for loss, step in re.findall(r"Loss = ([\d.]+), steps = (\d+)", log)}

    def until_340() -> dict[int, float]:
        told = losses(typing.namespace.log(worker))
        return told if max(told, default=0) >= 340 else {}

    training.until(lambda: "Loss = " in typing.namespace.log(worker), "a loss")
    assert losses(typing.type("allreduce-loss"))
    by_step = training.until(until_340, "340 steps")  # the log goes with the pod, a little later
    for due in (100, 200, 300):  # a worker that has no records for a step tells the loss of its next
        assert any(due <= step < due + 10 for step in by_step), sorted(by_step)
    about_300 = [loss for step, loss in by_step.items() if 260 < step < 350]
    assert len(about_300) >= 60
    assert sum(about_300) / len(about_300) < 0.15  # each is the loss of one minibatch, and varies by its half
    assert_all_done(training, epochs=8)


# In the cloud


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the claim of the page means."""
    return tmp_path_factory.mktemp("cloud") / "volume"


@pytest.fixture
def cloud(
    terminal: Type, cluster: Cluster, namespace: Namespace, disk: Path, done: set[str]
) -> Iterator[Callable[..., Terminal]]:
    """Sets up as the page says."""

    def set_up(more: Changes | None = None) -> Terminal:
        typing = terminal("cloud.md", {**in_the_cloud(cluster), **(more or {})})
        typing.type("cluster", "rights")
        typing.type_once(done, "image", "data")
        return typing

    with claim(namespace, disk):
        yield set_up


def test_a_job_is_built_pushed_run_found_by_its_label_and_deleted_by_it(
    cloud: Callable[..., Terminal],
) -> None:
    typing = cloud()
    assert "service/kubernetes" in typing.type("look")
    training = typing.begin("hello-world")
    training.until_said(RUNS, times=3)
    listed = typing.type("hello-pods")
    assert re.findall(r"^elasticdl-hello-world-(\S+) +1/1 +Running", listed, re.MULTILINE) == [
        "master",
        "ps-0",
        "worker-0",
        "worker-1",
    ]
    typing.type("hello-delete")
    assert training.process.wait(SECONDS) == 1
    assert "job hello-world was deleted" in training.text()
    kinds = "pods,services,configmaps,secrets"
    left = lambda: typing.namespace.get(kinds, "-l", "elasticdl_job_name=hello-world")["items"]  # noqa: E731
    until(lambda: not left(), what="all of the job has gone", seconds=PATIENCE_SECONDS)


def test_a_worker_that_dies_is_replaced_and_its_records_are_trained(cloud: Callable[..., Terminal]) -> None:
    more: Changes = {r"(--job_name=fault-tolerance [^$]*\$[^$]*\$[^$]*--num_epochs)=1": r"\1=2"}
    typing = cloud(more)  # worker-2 may take as long to be there as one epoch does
    training = typing.begin("fault-tolerance")
    training.until_said(r"worker elasticdl-fault-tolerance-worker-0 joined")
    typing.type("delete-worker")
    training.until_said(r"worker elasticdl-fault-tolerance-worker-2 joined")
    training.until(lambda: workers(typing, "fault-tolerance", "Running") == 2, "two workers run again")
    assert_all_done(training, epochs=2)
    assert "job fault-tolerance succeeded: 12 000 records" in typing.type("ledger")


def test_an_urgent_job_takes_the_place_of_a_worker_which_comes_back_when_it_has_ended(
    cloud: Callable[..., Terminal], cluster: Cluster
) -> None:
    fewer: Changes = {
        r"request=\"cpu=([\d.]+)": lambda cpu: f'request="cpu={float(cpu[1]) / 10:g}',
        r"(--job_name=low-prio-job [^$]*\$[^$]*\$[^$]*--num_epochs)=1": r"\1=10",
        r"(--job_name=high-prio-job [^$]*)\$\{MNIST_DATA_DIR\}/train": r"\1${MNIST_DATA_DIR}/test",
    }
    with ExitStack() as small:
        for node in cluster.nodes:
            taken = faults.free(cluster, node.name) - TENTH_OF_A_NODE
            small.enter_context(faults.preempted(cluster, node.name, millicores=taken))
        typing = cloud(fewer)
        typing.type("priorities")
        classes = ("priorityclass", "high-priority", "low-priority")
        small.callback(cluster.kubectl, "delete", *classes)  # they are in no namespace
        low = typing.begin("low-prio-job")
        low.until_said(JOINED, times=2)
        high = typing.begin("high-prio-job")
        preempted = low.until(lambda: preemptions(typing), "a worker is preempted")
        assert preempted == ["elasticdl-low-prio-job-worker"]
        high.until_said(JOINED)
        assert re.search(r"worker-0 waits: no node can take it", high.text())
        high.until(lambda: typing.pods("high-prio-job")["worker-0"] == "Running", "the urgent worker runs")
        assert "elasticdl-high-prio-job-worker-0" in typing.type("high-pods")
        assert workers(typing, "low-prio-job", "Running") == 1
        assert_all_done(high, epochs=1, records=1000)
        low.until_said(JOINED, times=3)
        low.until(lambda: workers(typing, "low-prio-job", "Running") == 2, "two workers run again")
        assert_all_done(low, epochs=10)


def preemptions(typing: Terminal) -> list[str]:
    """The pods that the scheduler has preempted, without their numbers."""
    events = typing.namespace.get("events", "--field-selector=reason=Preempted")["items"]
    return [event["involvedObject"]["name"].rpartition("-")[0] for event in events]


# On a cluster of your own


@pytest.fixture
def company(terminal: Type, cluster: Cluster, namespace: Namespace, done: set[str]) -> Callable[[], Terminal]:
    """Whose registry is `reg.docker.com/user/`, and whose namespace is `kubemaker`."""

    def set_up() -> Terminal:
        typing = terminal(
            "on-prem.md",
            {
                r"reg\.docker\.com/user": registry(cluster),
                r"kubemaker": namespace.name,
            },
        )
        typing.type_once(done, "images")
        send_layers(cluster, "localhost/elasticdl:ci")
        typing.type("rights")
        return typing

    return set_up


def test_models_of_this_machine_are_built_into_an_image_and_trained(company: Callable[[], Terminal]) -> None:
    training = company().begin("build")
    assert_all_done(training, epochs=2)
    assert re.search(
        r"the job runs the image \S+/tutorials/elasticdl:\w+, built from .* and pushed", training.text()
    )
    assert len(accuracies(training.text())) == 1


def test_an_image_with_the_models_is_run_as_it_is(company: Callable[[], Terminal]) -> None:
    typing = company()
    typing.type("zoo")
    training = typing.begin("pre-built")
    assert_all_done(training, epochs=2)
    assert re.search(r"the job runs the image \S+:mnist, as --image_name says", training.text())


def test_every_pod_and_service_is_as_the_cluster_spec_wants_it(company: Callable[[], Terminal]) -> None:
    typing = company()
    training = typing.begin("cluster-spec")

    def there(kind: str, count: int) -> list[Any]:
        found = typing.namespace.get(kind, "-l", "elasticdl_job_name=test-mnist-spec")["items"]
        return found if len(found) == count else []

    pods = training.until(lambda: there("pods", 4), "four pods")
    services = training.until(lambda: there("services", 2), "two services")
    for pod in pods:
        assert pod["metadata"]["labels"]["my_app"] == "elasticdl"
        assert "mycluster.com/app-pool" in json.dumps(pod["spec"]["tolerations"])
    assert {service["spec"]["clusterIP"] for service in services} == {"None"}
    assert_all_done(training, epochs=2)


# Working on the code


@pytest.fixture
def developer(terminal: Type, done: set[str]) -> Callable[[Changes], Terminal]:
    """Who has the development image, and whose name is 1000 there."""

    def set_up(changes: Changes) -> Terminal:
        typing = terminal("developer.md", changes)
        typing.type_once(done, "images")
        run("git", "init", "--quiet", typing.folder)
        run("git", "-C", typing.folder, "add", "--all")
        run("chown", "--recursive", "1000:1000", typing.folder)
        return typing

    return set_up


SAMPLE = {
    r"GEN_DATA=yes": "GEN_DATA=sample",
    r"elasticdl:data -f": "elasticdl:data --build-arg GEN_DATA=sample -f",
}
NOT_ROOT = {r"\$\(id -u\):\$\(id -g\)": "1000:1000"}


def test_in_the_development_image_the_code_is_tested_and_checked(
    developer: Callable[[Changes], Terminal], cluster: Cluster
) -> None:
    some = "tests/unit/spec/test_tutorial_commands.py tests/cluster/test_kit.py::test_three_nodes_are_ready"
    typing = developer({**NOT_ROOT, **SAMPLE, r"pytest tests": f"pytest {some}", r"\.venv/bin/": ""})
    assert "/data/mnist/train/data-00000" in typing.type("volume")
    said = typing.begin("shell", within=("generate", "without-cluster", "check")).ends()
    assert re.search(r"SKIPPED \[1\].* no cluster on this machine: K8S_TESTS=False", said)
    assert re.search(r"\d+ passed, 1 skipped in", said)
    assert len(re.findall(r"\.Passed$", said, re.MULTILINE)) == 4
    typing.environment["ELASTICDL_CLUSTER_SITE"] = str(cluster.site.number)
    assert re.search(r"\d+ passed in", typing.type("test"))


def listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def test_a_master_and_a_worker_by_hand(developer: Callable[[Changes], Terminal]) -> None:
    port = free_port()
    by_hand = {
        r"--job_name=test ": f"--job_name=test --port={port} ",
        r"localhost:50001": f"localhost:{port}",
    }
    typing = developer({**NOT_ROOT, **SAMPLE, **by_hand})
    typing.type("volume")
    master = typing.begin("master")
    master.until(lambda: listens(port), "the master listens")  # a worker looks for it for half a minute
    typing.begin("worker").ends()
    assert_all_done(master, epochs=2)


MASTER = "elasticdl-test-mnist-master"


@pytest.fixture
def demo(terminal: Type, cluster: Cluster) -> Terminal:
    """Who has an image with models and data, pushed; under a name that no node has had for another image."""
    image = builder.build("tensorflow", GEN_DATA="sample")
    send_layers(cluster, image)
    changes = {
        r"--base_image=elasticdl:dev": f"--base_image={image}",
        r"reg\.docker\.com/user/elasticdl:dev": demo_image(cluster),
    }
    typing = terminal("developer.md", changes)
    typing.type("demo-image")
    return typing


def test_a_master_that_is_applied_names_the_right_it_lacks_and_with_it_does_its_work(
    demo: Terminal, namespace: Namespace
) -> None:
    demo.edit("manifests/examples/elasticdl-demo-k8s.yaml")
    demo.type("demo")
    namespace.wait_for_phase("Failed", f"pod/{MASTER}", seconds=SECONDS)
    account = f"system:serviceaccount:{namespace.name}:default"
    refusal = f'pods is forbidden: User "{account}" cannot create resource "pods"'
    assert refusal in demo.type("demo-log")
    demo.type("demo-rights", "demo-again")
    namespace.wait_for_phase("Running", f"pod/{MASTER}", seconds=SECONDS)
    assert_all_done(demo.begin("demo-log"), epochs=1)


def test_in_minikube_an_image_of_its_node_is_enough(
    demo: Terminal, cluster: Cluster, namespace: Namespace
) -> None:
    image, (node, *others) = demo_image(cluster), cluster.nodes
    for words in (
        ("pull", "--plain-http", image),
        ("tag", "--force", image, "docker.io/library/elasticdl:dev"),
    ):
        node.machine.run("ctr", "--namespace=k8s.io", "images", *words)
    demo.type("demo-rights")
    with ExitStack() as one_node:
        for other in others:
            one_node.enter_context(faults.cordoned(cluster, other.name))
        demo.type("demo-minikube")
        namespace.wait_for_phase("Running", f"pod/{MASTER}", seconds=SECONDS)
        assert_all_done(demo.begin("demo-log"), epochs=1)
