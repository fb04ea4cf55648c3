"""The cluster kit: what it brings up is a real cluster, and its faults are real and are healed again."""

from __future__ import annotations

import functools
import json
import urllib.request
from typing import Any

import pytest

from elastic_runtime.errors import ElasticError, InputError
from tests.cluster.kit import faults
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster
from tests.cluster.kit.commands import until
from tests.cluster.kit.images import Image, push
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.objects import pod, service

pytestmark = pytest.mark.timeout(1200)  # each wait has its own, shorter limit


def shell(cluster: Cluster, name: str, script: str = "sleep 600", **more: Any) -> dict[str, Any]:
    """A pod that runs a script, and stops as soon as it is told to."""
    return pod(name, cluster.image("busybox"), "sh", "-c", f"trap exit TERM; {script} & wait $!", **more)


def sleeper(cluster: Cluster, name: str, **more: Any) -> dict[str, Any]:
    """A pod that takes three seconds to stop."""
    return pod(name, cluster.image("busybox"), "sleep", "600", terminationGracePeriodSeconds=3, **more)


def held(cluster: Cluster, name: str, **more: Any) -> dict[str, Any]:
    """The same, but its object stays, to be asked however late, until `disruption` lets it go."""
    made = sleeper(cluster, name, **more)
    made["metadata"]["finalizers"] = ["kit.test/held"]
    return made


def disruption(namespace: Namespace, name: str) -> str:
    """Why a pod is going; asked by path, as `kubectl wait` takes a condition of a deleted pod for stale."""
    condition = '.status.conditions[?(@.type=="DisruptionTarget")]'
    namespace.wait(f"--for=jsonpath={{{condition}.status}}=True", f"pod/{name}")
    reason = namespace.kubectl("get", "pod", name, f"--output=jsonpath={{{condition}.reason}}")
    namespace.kubectl("patch", "pod", name, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    return reason


def is_ready(cluster: Cluster, node: str) -> bool:
    conditions = cluster.get("node", node)["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_three_nodes_are_ready(cluster: Cluster) -> None:
    nodes = [node["metadata"]["name"] for node in cluster.get("nodes")["items"]]
    assert nodes == ["node-0", "node-1", "node-2"]
    assert all(is_ready(cluster, node) for node in nodes)


def test_a_pod_runs_and_its_log_can_be_read(cluster: Cluster, namespace: Namespace) -> None:
    assert namespace.output(shell(cluster, "speaker", "echo it runs")) == "it runs\n"


def test_a_service_is_found_by_name_and_reached_from_another_node(
    cluster: Cluster, namespace: Namespace
) -> None:
    namespace.apply(service("web", {"app": "web"}, 8080))
    serve = "echo served >/tmp/index.html; httpd -f -p 8080 -h /tmp"
    namespace.run(shell(cluster, "server", serve, node="node-0", labels={"app": "web"}))
    served = ("endpointslice", "--selector=kubernetes.io/service-name=web")
    namespace.wait("--for=jsonpath={.endpoints[0].conditions.ready}=true", *served)
    ask = "until timeout 10 wget -q -O - http://web:8080 2>/dev/null; do sleep 0.2; done"
    asked = shell(cluster, "asking", ask, node="node-1")  # which may hear of the service later than we do
    assert namespace.output(asked) == "served\n"


def test_an_image_pushed_to_the_registry_is_pulled_and_run(cluster: Cluster, namespace: Namespace) -> None:
    image = Image(
        {"/bin/busybox": cluster.binaries["busybox"]},
        texts={"/said": "pushed just now\n"},
        entrypoint=("busybox",),
    )
    name = push(image, f"{cluster.site.registry}/of/a-test:1")
    assert namespace.output(pod("pulled", name, "busybox", "cat", "/said")) == "pushed just now\n"
    with urllib.request.urlopen(f"http://{cluster.site.registry}/v2/of/a-test/tags/list") as answer:
        assert json.load(answer)["tags"] == ["1"]


def test_a_container_that_takes_more_memory_than_its_limit_is_killed(
    cluster: Cluster, namespace: Namespace
) -> None:
    greedy = ("dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=5")
    namespace.apply(pod("eater", cluster.image("busybox"), *greedy, limits={"memory": "20Mi"}))
    namespace.wait_for_phase("Failed", "pod/eater")
    ended = namespace.status("eater")["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_service_account_has_no_right_that_nobody_gave_it(cluster: Cluster, namespace: Namespace) -> None:
    asked = ("auth", "can-i", "create", "pods")
    account = f"--as=system:serviceaccount:{namespace.name}:default"
    assert namespace.kubectl(*asked, account, check=False) == "no\n"
    assert namespace.kubectl(*asked) == "yes\n"


def test_an_argo_workflow_of_one_step_succeeds(cluster: Cluster, namespace: Namespace) -> None:
    rights = ("--verb=create,patch", "--resource=workflowtaskresults.argoproj.io")
    namespace.kubectl("create", "role", "steps", *rights)
    bound = ("--role=steps", f"--serviceaccount={namespace.name}:default")
    namespace.kubectl("create", "rolebinding", "steps", *bound)
    step = {"image": cluster.image("busybox"), "command": ["echo", "argo was here"]}
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "one-step"},
        "spec": {"entrypoint": "step", "templates": [{"name": "step", "container": step}]},
    }
    namespace.apply(workflow)
    namespace.wait_for_phase("Succeeded", "workflow/one-step", seconds=400)
    assert "argo was here\n" in namespace.kubectl("logs", "one-step", "--container=main")


def test_a_lost_node_is_noticed_its_pods_go_and_it_comes_back(cluster: Cluster, namespace: Namespace) -> None:
    namespace.run(sleeper(cluster, "there", node="node-2"))
    with faults.lost(cluster, "node-2"):
        cluster.wait("--for=condition=Ready=Unknown", "node/node-2")
        assert disruption(namespace, "there") == "DeletionByTaintManager"
        namespace.run(shell(cluster, "elsewhere"))
    assert is_ready(cluster, "node-2")
    namespace.wait("--for=delete", "pod/there")
    assert namespace.output(shell(cluster, "again", "echo again", node="node-2")) == "again\n"


def test_partitioned_nodes_do_not_hear_each_other_until_healed(
    cluster: Cluster, namespace: Namespace
) -> None:
    namespace.run(
        shell(cluster, "server", "httpd -f -p 8080 -h /etc", node="node-0"),
        shell(cluster, "near", node="node-2"),
        shell(cluster, "far", node="node-1"),
    )
    address = f"http://{namespace.status('server')['podIP']}:8080/passwd"

    def hears(name: str) -> bool:
        ask = ("timeout", "10", "wget", "-q", "-O", "-", address)
        return "root" in namespace.kubectl("exec", name, "--", *ask, check=False)

    def until_heard(*names: str) -> None:
        for name in names:
            until(functools.partial(hears, name), what=f"{name} hears the server", seconds=PATIENCE_SECONDS)

    until_heard("near", "far")
    with faults.partitioned(cluster, "node-0", "node-1"):
        until_heard("near")
        assert not hears("far")
    until_heard("near", "far")


def test_a_node_cut_off_from_the_control_plane_is_taken_for_lost_though_its_pods_run(
    cluster: Cluster, namespace: Namespace
) -> None:
    namespace.run(shell(cluster, "there", node="node-1"))
    with faults.partitioned(cluster, "node-1", "control-plane"):
        cluster.wait("--for=condition=Ready=Unknown", "node/node-1")
        assert "sleep 600" in cluster.node("node-1").machine.run("ps", "-e", "-o", "args")
    assert is_ready(cluster, "node-1")


def test_pods_go_on_while_the_api_server_is_stopped(cluster: Cluster, namespace: Namespace) -> None:
    count = "while true; do echo and on; sleep 0.2; done"
    namespace.run(shell(cluster, "counter", count))
    before = namespace.kubectl("logs", "counter").count("on")
    with faults.api_server_stopped(cluster), pytest.raises(ElasticError, match="refused"):
        cluster.kubectl("get", "nodes")
    assert namespace.kubectl("logs", "counter").count("on") > before
    assert namespace.status("counter")["containerStatuses"][0]["restartCount"] == 0


def test_a_filled_node_has_no_room_until_it_is_emptied(cluster: Cluster, namespace: Namespace) -> None:
    with faults.filled(cluster, "node-0", but=100):
        assert faults.free(cluster, "node-0") == 100
        namespace.apply(shell(cluster, "wanted", node="node-0", requests={"cpu": "200m"}))
        namespace.wait("--for=condition=PodScheduled=false", "pod/wanted")
    namespace.wait_for_phase("Running", "pod/wanted")


def test_a_more_urgent_pod_preempts(cluster: Cluster, namespace: Namespace) -> None:
    share = faults.free(cluster, "node-1") - 100

    def preempted() -> list[str]:
        events = namespace.get("events", "--field-selector=reason=Preempted")["items"]
        return [event["involvedObject"]["name"] for event in events]

    namespace.run(sleeper(cluster, "victim", node="node-1", requests={"cpu": f"{share}m"}))
    with faults.preempted(cluster, "node-1", millicores=share):
        until(lambda: bool(preempted()), what="the scheduler's word", seconds=PATIENCE_SECONDS)
        assert preempted() == ["victim"]
    assert faults.free(cluster, "node-1") >= share


def test_a_tainted_node_is_left_by_its_pods_until_the_taint_goes(
    cluster: Cluster, namespace: Namespace
) -> None:
    namespace.run(held(cluster, "leaving", node="node-1"))
    with faults.tainted(cluster, "node-1", "kit/broken=true:NoExecute"):
        assert disruption(namespace, "leaving") == "DeletionByTaintManager"
        namespace.wait("--for=delete", "pod/leaving")
    namespace.run(shell(cluster, "after", node="node-1"))


def test_nothing_new_gets_on_a_cordoned_node(cluster: Cluster, namespace: Namespace) -> None:
    with faults.cordoned(cluster, "node-0"):
        namespace.apply(shell(cluster, "waiting", node="node-0"))
        namespace.wait("--for=condition=PodScheduled=false", "pod/waiting")
    namespace.wait_for_phase("Running", "pod/waiting")


def test_a_drained_node_is_left_by_its_pods_and_takes_new_ones_after(
    cluster: Cluster, namespace: Namespace
) -> None:
    namespace.run(shell(cluster, "drained", node="node-1"), shell(cluster, "spared", node="node-2"))
    with faults.drained(cluster, "node-1"):
        assert [each["metadata"]["name"] for each in namespace.get("pods")["items"]] == ["spared"]
    namespace.run(shell(cluster, "after", node="node-1"))


def test_an_evicted_pod_says_that_it_was_evicted(cluster: Cluster, namespace: Namespace) -> None:
    namespace.run(held(cluster, "evicted"))
    faults.evict(cluster, "evicted", namespace=namespace.name)
    assert disruption(namespace, "evicted") == "EvictionByEvictionAPI"
    namespace.wait("--for=delete", "pod/evicted")


def test_a_deleted_pod_is_gone(cluster: Cluster, namespace: Namespace) -> None:
    namespace.run(shell(cluster, "deleted"))
    faults.delete(cluster, "deleted", namespace=namespace.name)
    assert namespace.get("pods")["items"] == []


def test_a_node_that_does_not_exist_is_refused_with_the_nearest_name(cluster: Cluster) -> None:
    with pytest.raises(InputError, match=r"node-22.*did you mean 'node-2'"), faults.lost(cluster, "node-22"):
        pass
