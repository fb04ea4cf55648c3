"""`--cluster_spec_json`: each part of it, in pods of each role and in services; unknown keys at any depth."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client
from plans import child, job, variables

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes.cluster_json import ClusterJson
from elastic_runtime.platform.kubernetes.objects import Blueprint
from elastic_runtime.platform.pods import Role

WHOLE = {
    "pod_spec": {
        "labels": {"example.com/site": "hangzhou", "example.com/planet": "any"},
        "annotations": {"master-config": '{"cpu": 0.4}'},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        },
        "tolerations": [{"effect": "NoSchedule", "key": "pool", "operator": "Equal", "value": "a"}],
        "env": [{"name": "LOG", "value": "true"}],
    },
    "service_spec": {"clusterIP": "None", "type": "ClusterIP"},
    "master_pod_spec": {"labels": {"example.com/planet": "Mars"}},
    "worker_pod_spec": {"labels": {"example.com/planet": "Earth"}},
    "ps_pod_spec": {"labels": {"example.com/planet": "Moon"}},
}


def plan(given, *options):
    text = given if isinstance(given, str) else json.dumps(given)
    return Blueprint.of(job(f"--cluster_spec_json={text}", *options))


def pods(blueprint):
    return {
        "master": blueprint.master_pod(["python"]),
        "ps": blueprint.pod(child(Role.PS)),
        "worker": blueprint.pod(child()),
    }


def test_what_is_for_all_pods_is_in_every_pod():
    for pod in pods(plan(WHOLE)).values():
        assert pod.metadata.labels["example.com/site"] == "hangzhou"
        assert pod.metadata.annotations["master-config"] == '{"cpu": 0.4}'
        terms = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        assert terms.node_selector_terms[0].match_expressions == [
            client.V1NodeSelectorRequirement(key="pool", operator="In", values=["a"])
        ]
        assert variables(pod) == {"LOG": "true"}


def test_what_is_for_one_role_is_in_its_pods():
    planets = {role: pod.metadata.labels["example.com/planet"] for role, pod in pods(plan(WHOLE)).items()}
    assert planets == {"master": "Mars", "ps": "Moon", "worker": "Earth"}


def test_tolerations_come_beside_our_own_and_a_variable_takes_the_place_of_its_name():
    pod = plan(WHOLE, "--envs=LOG=false,MODE=fast").pod(child())
    assert [each.key for each in pod.spec.tolerations][-1] == "pool"
    assert len(pod.spec.tolerations) == 3
    assert variables(pod) == {"MODE": "fast", "LOG": "true"}


@pytest.mark.parametrize("name", ["clusterIP", "cluster_ip"])
def test_a_services_fields_are_replaced_by_either_spelling(name):
    blueprint = plan({"service_spec": {name: "None", "publishNotReadyAddresses": True}})
    for service in (blueprint.master_service(), blueprint.ps_service(1)):
        assert (service.spec.cluster_ip, service.spec.publish_not_ready_addresses) == ("None", True)
        assert service.spec.ports


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{", "--cluster_spec_json: is not JSON: "),
        ("[]", "--cluster_spec_json: got [] (give {...})"),
        ({"pods_spec": {}}, "--cluster_spec_json: unknown key 'pods_spec' (did you mean 'pod_spec'?)"),
        ({"pod_spec": []}, "--cluster_spec_json: pod_spec: got [] (give {...})"),
        ({"ps_pod_spec": {"label": {}}}, "ps_pod_spec: unknown key 'label' (did you mean 'labels'?)"),
        ({"pod_spec": {"labels": {"a": 1}}}, "pod_spec.labels.a: got 1 (give text)"),
        ({"pod_spec": {"tolerations": {}}}, "pod_spec.tolerations: got {} (give [...])"),
        (
            {"pod_spec": {"tolerations": [{"key": "k"}, {"kee": "k"}]}},
            "pod_spec.tolerations[1]: unknown key 'kee' (did you mean 'key'?)",
        ),
        (
            {"pod_spec": {"tolerations": [{"tolerationSeconds": "9"}]}},
            "tolerationSeconds: got '9' (give a whole",
        ),
        ({"pod_spec": {"tolerations": [{"tolerationSeconds": True}]}}, "got True (give a whole number)"),
        ({"pod_spec": {"env": [{"value": "v"}]}}, "pod_spec.env[0]: Invalid value for `name`"),
        (
            {"pod_spec": {"affinity": {"nodeAfinity": {}}}},
            "pod_spec.affinity: unknown key 'nodeAfinity' (did you mean 'nodeAffinity'?)",
        ),
        (
            {"service_spec": {"clusterIp": "None"}},
            "service_spec: unknown key 'clusterIp' (did you mean 'clusterIP'?)",
        ),
        ({"service_spec": {"ports": [{"port": "x"}]}}, "service_spec.ports[0].port: got 'x'"),
    ],
)
def test_a_mistake_is_told_by_its_key(given, told):
    with pytest.raises(InputError) as error:
        plan(given)
    assert told in str(error.value)


def test_a_label_the_job_is_found_by_stays():
    blueprint = plan({"worker_pod_spec": {"labels": {"elasticdl_job_name": "mine", "app": "mine"}}})
    with pytest.raises(InputError, match="elasticdl_job_name=mine, where the job looks for j"):
        blueprint.pod(child())
    assert plan({"pod_spec": {"labels": {"app": "mine"}}}).pod(child()).metadata.labels["app"] == "mine"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["pod_spec", "labels", "env", "name", "affinity", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(_JSON)
def test_any_json_is_taken_or_refused_in_words(given):
    with contextlib.suppress(InputError):
        ClusterJson.parse(json.dumps(given))
