"""The manifests that the tutorials name: where they say, and in step with what the program makes itself."""

import json
import re
from pathlib import Path

import pytest
import yaml

from elastic_runtime.platform.kubernetes.container import pod_security
from elastic_runtime.platform.kubernetes.manifest import to_json
from elastic_runtime.platform.kubernetes.objects import Blueprint
from elastic_runtime.platform.pods import Role, pod_name
from elastic_runtime.spec.arguments import parse

MANIFESTS = Path(__file__).parents[4] / "manifests"
DEMOS = ("elasticdl-demo-minikube.yaml", "elasticdl-demo-k8s.yaml")


def documents(name):
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def demo(name):
    """Its pod, and the blueprint of the job that the pod's command line asks for."""
    (pod,) = documents(f"examples/{name}")
    *program, first = pod["spec"]["containers"][0]["command"][:4]
    assert program == ["python", "-m", "elastic_runtime.master"]
    words = [first, *pod["spec"]["containers"][0]["command"][4:]]
    parsed = parse("master", [word.replace("$(ELASTICDL_NAMESPACE)", "default") for word in words])
    return pod, Blueprint.of(parsed.spec)


def test_the_rights_are_in_one_file_that_every_tutorial_finds():
    for path in ("manifests/examples", "elasticdl/manifests", "elasticdl/manifests/examples"):
        named = MANIFESTS.parent / path / "elasticdl-rbac.yaml"
        assert named.samefile(MANIFESTS / "elasticdl-rbac.yaml")
    role, binding = documents("examples/elasticdl-rbac.yaml")
    assert role["kind"] == "Role"  # and no ClusterRole: nothing outside the namespace
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "default"}]
    assert all("namespace" not in each["metadata"] for each in (role, binding))
    assert "*" not in str(role["rules"])


@pytest.mark.parametrize(("name", "value"), [("high", 1_000_000), ("low", 1_000)])
def test_the_tutorials_priority_classes_have_their_names_and_values(name, value):
    (made,) = documents(f"examples/{name}-prio.yaml")
    assert (made["apiVersion"], made["kind"]) == ("scheduling.k8s.io/v1", "PriorityClass")
    assert (made["metadata"]["name"], made["value"]) == (f"{name}-priority", value)
    assert made["globalDefault"] is False


def test_of_our_priority_classes_one_is_below_what_has_none_and_still_worth_a_node():
    """Else a worker that should give way takes the place of its own parameter server."""
    ours = {each["metadata"]["name"]: each for each in documents("elasticdl-priorities.yaml")}
    assert {*ours} == {"high", "low"}
    assert -10 <= ours["low"]["value"] < 0 < ours["high"]["value"]
    assert not any(each["globalDefault"] for each in ours.values())


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_is_the_pod_that_the_client_would_make(name):
    pod, blueprint = demo(name)
    assert blueprint.spec.platform == "kubernetes"
    (made,) = json.loads(to_json([blueprint.master_pod(["python"], by_hand=True)]))["items"]
    for each in (pod, made):
        each["metadata"].pop("namespace", None)
        each["metadata"].pop("annotations", None)
        each["spec"]["containers"][0].pop("command")
        each["spec"]["containers"][0].pop("resources")
    assert pod == made


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_runs_one_image_in_all_pods_and_a_model_that_is_there(name):
    pod, blueprint = demo(name)
    spec = blueprint.spec
    assert pod["spec"]["containers"][0]["image"] == spec.image_name
    assert pod["metadata"]["name"] == pod_name(spec.job_name, Role.MASTER)
    model = MANIFESTS.parent / "model_zoo" / Path(*spec.model_def.split(".")[:-1]).with_suffix(".py")
    assert model.is_file()


def test_the_pod_that_writes_the_data_in_the_cloud_may_write_where_the_jobs_pods_may():
    page = (MANIFESTS.parent / "docs" / "tutorials" / "cloud.md").read_text()
    (text,) = re.findall(r"<<YAML\n(.*?\n)YAML\n", page, re.DOTALL)
    written = yaml.safe_load(text)
    assert written["metadata"]["name"] == "mnist-data"
    assert written["spec"]["securityContext"]["fsGroup"] == pod_security(on_host=False).fs_group
