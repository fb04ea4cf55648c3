"""The API's thin client against a real API server: its answers, its refusals, and waiting for it."""

from __future__ import annotations

import http.server
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
from kubernetes import client
from kubernetes.client import V1ConfigMap, V1ObjectMeta, V1OwnerReference, V1Secret

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes import connection
from elastic_runtime.platform.kubernetes.api import (
    AlreadyThere,
    Api,
    ApiError,
    Away,
    Changed,
    Expired,
    Forbidden,
    Invalid,
    NoQuota,
    NotThere,
    StillThere,
)
from elastic_runtime.platform.kubernetes.connection import Connection, configuration
from tests.cluster.kit import faults
from tests.cluster.kit.cluster import PATIENCE_SECONDS as SECONDS
from tests.cluster.kit.commands import until
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.objects import pod, service

pytestmark = pytest.mark.timeout(900)  # each wait has its own, shorter limit
MARK = {"test": "api"}


@pytest.fixture
def found(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where the cluster is, as kubectl has it."""
    monkeypatch.setenv("KUBECONFIG", str(namespace.cluster.kubeconfig))
    return configuration(force_kube_config_file=True)


@pytest.fixture
def api(namespace: Namespace, found: Any):
    made = Api(Connection(found, patience=SECONDS), namespace.name)
    yield made
    made.close()


def sleeper(namespace: Namespace, name: str = "sleeper", script: str = "sleep 600", **more: Any) -> Any:
    image = namespace.cluster.image("busybox")
    return pod(name, image, "sh", "-c", f"trap exit TERM; {script} & wait $!", labels=MARK, **more)


def test_a_pod_from_its_making_to_its_end(api, namespace):
    assert api.get_pod("sleeper") is None
    made = api.create_pod(sleeper(namespace))
    namespace.wait_for_phase("Running", "pod/sleeper")
    assert api.get_pod("sleeper").status.phase == "Running"
    assert [each.metadata.uid for each in api.list_pods("test=api").items] == [made.metadata.uid]
    told = lambda: "Scheduled" in [event.reason for event in api.pod_events("sleeper")]  # noqa: E731
    until(told, what="the scheduler's word", seconds=SECONDS)
    with pytest.raises(AlreadyThere, match='"sleeper" already exists'):
        api.create_pod(sleeper(namespace))
    api.delete_pod("sleeper", uid="another one")
    assert not api.get_pod("sleeper").metadata.deletion_timestamp
    api.delete_pod("sleeper", grace=0, uid=made.metadata.uid)
    api.await_gone("sleeper", uid=made.metadata.uid, seconds=SECONDS)
    api.delete_pod("sleeper")
    assert api.list_pods("test=api").items == []


def test_a_pod_that_stays_is_not_waited_for_without_end(api, namespace):
    made = api.create_pod(sleeper(namespace))
    with pytest.raises(StillThere, match="pod sleeper is still there"):
        api.await_gone("sleeper", uid=made.metadata.uid, seconds=1)


def test_the_address_of_a_pod_is_waited_for(api, namespace):
    held = sleeper(namespace)
    held["spec"]["schedulingGates"] = [{"name": "test/held"}]
    api.create_pod(held)
    with pytest.raises(ApiError, match="pod sleeper has no address after 1 s"):
        api.await_address("sleeper", seconds=1)
    with ThreadPoolExecutor(1) as waiting:
        address = waiting.submit(api.await_address, "sleeper", seconds=SECONDS)
        api.patch_pod("sleeper", {"spec": {"schedulingGates": None}})
        assert address.result() == namespace.status("sleeper")["podIP"]
    api.delete_pod("sleeper", grace=0)


def test_a_pod_that_goes_while_its_address_is_waited_for_is_told(api, namespace):
    held = sleeper(namespace)
    held["spec"]["schedulingGates"] = [{"name": "test/held"}]
    api.create_pod(held)
    with ThreadPoolExecutor(1) as waiting:
        address = waiting.submit(api.await_address, "sleeper", seconds=SECONDS)
        api.delete_pod("sleeper", grace=0)
        with pytest.raises(NotThere, match="sleeper is gone, and never had an address"):
            address.result()


def test_owners_are_added_beside_those_that_are_there(api):
    owners = [api.create_config_map(V1ConfigMap(metadata=V1ObjectMeta(name=name))).metadata for name in "ab"]
    api.create_config_map(V1ConfigMap(metadata=V1ObjectMeta(name="owned"), data={"a": "1"}))

    class Owner:
        def __init__(self, found):
            self.found = found

        def reference(self):
            return V1OwnerReference(
                api_version="v1", kind="ConfigMap", name=self.found.name, uid=self.found.uid
            )

    for owner in (*owners, owners[0]):
        there = api.add_owner("owned", Owner(owner))
    assert {each.name for each in there.metadata.owner_references} == {"a", "b"}
    assert len(there.metadata.owner_references) == 2
    assert there.data == {"a": "1"}


def test_a_config_map_is_merged_patched_and_replaced_unless_it_has_changed(api):
    before = api.create_config_map(V1ConfigMap(metadata=V1ObjectMeta(name="map"), data={"a": "1", "b": "2"}))
    assert api.patch_config_map("map", {"data": {"a": None, "c": "3"}}).data == {"b": "2", "c": "3"}
    test_then_set = [
        {"op": "test", "path": "/data/b", "value": "2"},
        {"op": "replace", "path": "/data/b", "value": "4"},
    ]
    assert api.patch_config_map("map", test_then_set).data == {"b": "4", "c": "3"}
    with pytest.raises(Invalid):
        api.patch_config_map("map", test_then_set)
    with pytest.raises(Changed, match="has been modified"):
        api.replace_config_map(before)
    before.metadata.resource_version = None
    assert api.replace_config_map(before).data == {"a": "1", "b": "2"}


def test_all_that_carries_a_label_is_deleted_and_nothing_else(api, namespace):
    labelled = V1ObjectMeta(name="mine", labels=MARK)
    api.create_config_map(V1ConfigMap(metadata=labelled))
    api.create_secret(V1Secret(metadata=labelled))
    api.create_service({**service("mine", MARK, 80), "metadata": {"name": "mine", "labels": MARK}})
    api.create_config_map(V1ConfigMap(metadata=V1ObjectMeta(name="other")))
    made = api.create_pod(sleeper(namespace))
    api.delete_all("test=api")
    api.await_gone("sleeper", uid=made.metadata.uid, seconds=SECONDS)
    assert api.get_secret("mine") is api.get_service("mine") is api.get_config_map("mine") is None
    assert api.get_config_map("other") is not None


def test_a_watch_tells_each_change_from_where_it_was_told_to_begin(api, namespace):
    version = api.list_pods("test=api").metadata.resource_version
    made = api.create_pod(sleeper(namespace))
    api.create_pod({**sleeper(namespace, "unmarked"), "metadata": {"name": "unmarked"}})
    seen = []
    for kind, each in api.watch_pods("test=api", version):
        if kind == "BOOKMARK":
            continue
        seen.append((kind, each.metadata.name))
        if kind == "DELETED":
            break
        if each.status.phase == "Running" and not each.metadata.deletion_timestamp:
            api.delete_pod("sleeper", uid=made.metadata.uid)
    assert (seen[0], seen[-1]) == (("ADDED", "sleeper"), ("DELETED", "sleeper"))
    assert {name for _, name in seen} == {"sleeper"}


@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_watch_that_waits_is_stopped_from_another_thread(api, namespace, end):
    version = api.list_pods("test=api").metadata.resource_version
    api.create_pod(sleeper(namespace, node="no-such-node"))
    watch = api.watch_pods("test=api", version)
    assert next(watch)[0] == "ADDED"
    reader = threading.Thread(target=lambda: [*watch])
    reader.start()
    reader.join(0.5)
    assert reader.is_alive()
    watch.stop() if end == "stop" else api.close()
    reader.join(SECONDS)
    assert not reader.is_alive()
    assert [*watch] == []


def test_a_watch_stopped_before_it_began_asks_for_nothing(api):
    watch = api.watch_pods("test=api", "1")
    watch.stop()
    assert [*watch] == []


def test_many_watches_keep_nobody_from_asking(api):
    version = api.list_pods("test=api").metadata.resource_version
    watches = [api.watch_pods("test=api", version) for _ in range(60)]
    readers = [threading.Thread(target=lambda watch=watch: [*watch]) for watch in watches]
    for reader in readers:
        reader.start()
    with ThreadPoolExecutor(1) as asking:
        assert asking.submit(lambda: [api.list_pods("test=api").items for _ in range(20)]).result(SECONDS)
    api.close()
    for reader in readers:
        reader.join(SECONDS)
    assert not any(reader.is_alive() for reader in readers)


def test_a_log_is_followed_to_its_end_and_read_from_its_last_lines(api, namespace):
    api.create_pod(sleeper(namespace, script="for i in 1 2 3; do echo line $i; sleep 0.3; done; printf end"))
    namespace.wait("--for=jsonpath={.status.containerStatuses[0].state}", "pod/sleeper")
    namespace.wait_for_phase("Succeeded", "pod/sleeper")
    assert [*api.pod_log("sleeper", follow=True)] == ["line 1", "line 2", "line 3", "end"]
    assert [*api.pod_log("sleeper", tail=2)] == ["line 3", "end"]


def test_following_a_silent_pod_is_stopped_from_another_thread(api, namespace):
    namespace.run(sleeper(namespace, script="echo on; sleep 600"))
    log = api.pod_log("sleeper", follow=True)
    assert next(log) == "on"
    stopper = threading.Timer(0.2, log.stop)
    stopper.start()
    assert [*log] == []
    stopper.join()


def test_a_log_that_is_not_there_yet_is_refused_with_the_reason(api, namespace):
    made = sleeper(namespace)
    made["spec"]["containers"][0]["image"] = "no.such.registry/image:1"
    api.create_pod(made)
    namespace.wait("--for=jsonpath={.status.containerStatuses[0].state.waiting}", "pod/sleeper")
    with pytest.raises(Invalid, match="waiting to start"):
        next(api.pod_log("sleeper"))


def test_an_account_without_rights_is_told_what_it_may_not_do_and_what_cures_it(api, namespace, found):
    found.cert_file = found.key_file = None
    found.api_key["authorization"] = f"Bearer {namespace.kubectl('create', 'token', 'default').strip()}"
    other = Api(Connection(found, patience=SECONDS), namespace.name)
    with pytest.raises(Forbidden) as refused:
        other.create_pod(sleeper(namespace))
    account = f'User "system:serviceaccount:{namespace.name}:default" cannot create resource "pods"'
    assert f"pods is forbidden: {account}" in str(refused.value)
    remedy = f"(kubectl apply -n {namespace.name} -f manifests/elasticdl-rbac.yaml)"
    assert remedy in str(refused.value)
    assert (api.may("create", "pods"), other.may("create", "pods")) == (True, False)
    namespace.kubectl("create", "role", "logs", "--verb=get", "--resource=pods/log")
    namespace.kubectl(
        "create", "rolebinding", "logs", "--role=logs", f"--serviceaccount={namespace.name}:default"
    )
    until(lambda: other.may("get", "pods/log"), what="the API server knows of the right", seconds=SECONDS)
    assert not other.may("get", "pods")


def test_a_login_that_is_not_known_is_told(namespace, found):
    found.cert_file = found.key_file = None
    found.api_key["authorization"] = "Bearer of nothing"
    with pytest.raises(ApiError, match=r"does not know who this is \(Unauthorized\).*log in"):
        Api(Connection(found, patience=SECONDS), namespace.name).list_pods("")


def test_a_certificate_that_does_not_fit_is_told_at_once(namespace, found):
    """Which is not waited for: the patience is longer than the test's."""
    found.ssl_ca_cert = found.cert_file
    with pytest.raises(ApiError, match=r"certificate verify failed.*credentials anew"):
        Api(Connection(found, patience=3600), namespace.name).list_pods("")


def test_a_quota_that_is_used_up_is_told_as_such(api, namespace):
    namespace.kubectl("create", "quota", "none", "--hard=pods=0")
    namespace.wait("--for=jsonpath={.status.hard.pods}=0", "quota/none")
    with pytest.raises(NoQuota, match=r"exceeded quota: none.*have the quota raised"):
        api.create_pod(sleeper(namespace))


def test_a_wrong_field_is_named(api, namespace):
    wrong = sleeper(namespace, requests={"cpu": "2"}, limits={"cpu": "1"})
    with pytest.raises(
        Invalid, match=r"resources.requests: Invalid value: .* less than or equal to cpu limit"
    ):
        api.create_pod(wrong)


def test_a_namespace_that_is_not_there_is_told_with_the_option_that_names_it(found):
    with pytest.raises(NotThere, match=r'namespaces "nowhere" not found .*--namespace'):
        Api(Connection(found, patience=SECONDS), "nowhere").create_config_map(
            V1ConfigMap(metadata=V1ObjectMeta(name="map"))
        )


def test_without_a_cluster_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"no cluster is configured.*kubectl get pods.*--platform=process"):
        Api.connect("default", force_kube_config_file=True)
    (tmp_path / "broken").write_text("a: b: c")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "broken"))
    with pytest.raises(InputError, match="no cluster is configured"):
        Api.connect("default", force_kube_config_file=True)


def test_a_server_that_is_away_is_waited_for(api, namespace, caplog):
    caplog.set_level("INFO")
    watch = api.watch_pods("test=api", api.list_pods("test=api").metadata.resource_version)
    events: list[Any] = []
    reader = threading.Thread(target=lambda: [events.append(event) for event in watch])
    reader.start()
    api.create_pod(sleeper(namespace, node="no-such-node"))
    until(lambda: bool(events), what="the watch has begun", seconds=SECONDS)
    askers = [threading.Thread(target=lambda: api.list_pods("test=api")) for _ in range(3)]
    with faults.api_server_stopped(namespace.cluster):
        with pytest.raises(Away, match=r"https://.*cannot be reached: the connection is refused"):
            api.patient(0.5).list_pods("test=api")
        reader.join(SECONDS)
        assert not reader.is_alive()
        for asker in askers:
            asker.start()
        while "waiting for it" not in caplog.text:
            askers[0].join(0.05)
            assert askers[0].is_alive()
    for asker in askers:
        asker.join(SECONDS)
    with pytest.raises(Expired, match="too old"):  # the server has forgotten what was before it started
        next(api.watch_pods("test=api", "1"))
    said = [record.message for record in caplog.records if "API server" in record.message]
    once = ["the API server of the cluster is away ", "the API server answers again"]
    times = len(said) // 2 or 1  # a server that begins may be away once more
    assert [line.split("(")[0].split(" after")[0] for line in said] == once * times


class Busy(http.server.BaseHTTPRequestHandler):
    """An API server, as far as it goes: overloaded at first, and then it does not yet know anybody."""

    protocol_version = "HTTP/1.1"
    left: ClassVar = [429, 503, 500, 403, 401]

    def do_GET(self):
        code = self.left.pop(0) if self.left else 404
        body = json.dumps({"kind": "Status", "message": "not now", "code": code}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_a_server_that_is_not_yet_itself_is_asked_again(monkeypatch):
    monkeypatch.setattr(connection, "SETTLED_SECONDS", SECONDS)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever).start()
        found = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        api = Api(Connection(found, patience=SECONDS), "default")
        assert api.get_pod("any") is None
        api.close()
        server.shutdown()
    assert Busy.left == []
