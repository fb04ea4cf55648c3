"""The user's own rules: the tutorial's file works as printed, and every mistake is told by its line."""

import textwrap

import pytest
from kubernetes import client
from plans import TUTORIAL, child, job, plan, variables

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes import cluster_spec
from elastic_runtime.platform.kubernetes.objects import Blueprint
from elastic_runtime.platform.pods import Role

HARMLESS = """
class Cluster:
    def with_pod(self, pod):
        return pod
    def with_service(self, service):
        return service
cluster = Cluster()
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes `spec.py` into the present folder, and gives the plan of a job that names it."""
    monkeypatch.chdir(tmp_path)

    def write(text, *options):
        (tmp_path / "spec.py").write_text(textwrap.dedent(text))
        return Blueprint.of(job("--cluster_spec", "spec.py", *options))

    return write


def all_of(blueprint):
    pods = [blueprint.master_pod(["python"]), blueprint.pod(child(Role.PS)), blueprint.pod(child())]
    return pods, [blueprint.master_service(), blueprint.ps_service(0)]


def test_the_tutorials_file_changes_every_pod_and_every_service(written):
    pods, services = all_of(written(TUTORIAL))
    wanted = client.V1Toleration(
        effect="NoSchedule", key="mycluster.com/app-pool", operator="Equal", value="elasticdl"
    )
    for pod in pods:
        assert pod.metadata.labels["my_app"] == "elasticdl"
        assert pod.metadata.labels["elasticdl_job_name"] == "j"
        assert pod.spec.tolerations == [wanted]  # it replaces what we would have them be
    for service in services:
        assert (service.spec.type, service.spec.cluster_ip) == ("ClusterIP", "None")
        assert service.spec.selector["elasticdl_job_name"] == "j"


def test_labels_and_annotations_are_there_to_be_added_to(written):
    add = HARMLESS.replace("return service", "service.metadata.annotations['a'] = 'b'; return service")
    for service in all_of(written(add))[1]:
        assert service.metadata.annotations == {"a": "b"}


def test_the_anchor_carries_the_file_so_that_no_image_has_to(written, tmp_path):
    spec = job("--cluster_spec=spec.py")
    anchor = written(TUTORIAL).anchor()
    (tmp_path / "spec.py").unlink()
    with pytest.raises(InputError) as error:
        Blueprint.of(spec)
    assert str(error.value) == "--cluster_spec: there is no spec.py, and no /cluster_spec/spec.py"
    again = Blueprint.of(spec, anchor)
    assert again.pod(child()).metadata.labels["my_app"] == "elasticdl"
    assert again.anchor().data == anchor.data


def test_an_image_may_hold_the_file_under_its_name(tmp_path, monkeypatch):
    (tmp_path / "spec.py").write_text(TUTORIAL)
    monkeypatch.setattr(cluster_spec, "IN_IMAGES", tmp_path)
    blueprint = Blueprint.of(job("--cluster_spec=elsewhere/spec.py"), plan().anchor())
    assert blueprint.pod(child()).metadata.labels["my_app"] == "elasticdl"


def test_a_file_may_use_dataclasses(written):
    text = """from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Pool:
    name: str = "a"
"""
    assert written(text + HARMLESS).pod(child()).metadata.name == "elasticdl-j-worker-0"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "spec.py: there is no `cluster`"),
        ("cluster = object()", "spec.py: `cluster` has no method with_pod"),
        (HARMLESS.replace("def with_service", "def with_a_service"), "`cluster` has no method with_service"),
        ("x = 1\nx y", "spec.py:2: SyntaxError: invalid syntax"),
        ("import os\n\nos.nothing", "spec.py:3: AttributeError: module 'os' has no attribute 'nothing'"),
        ("import no_such_module", "spec.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_at_once(written, text, told):
    with pytest.raises(InputError) as error:
        written(text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("pass", "spec.py:3: with_pod returned NoneType, not V1Pod (let it return what it was given)"),
        ("return 'pod'", "spec.py:3: with_pod returned str, not V1Pod"),
        (
            "pod.spec.nothing.at_all",
            "spec.py:4: AttributeError: 'V1PodSpec' object has no attribute 'nothing'",
        ),
        ("return pod.spec.containers[1]", "spec.py:4: IndexError: list index out of range"),
        ("pod.metadata.labels = {}; return pod", "elasticdl_job_name=None, where the job looks for j"),
        ("pod.metadata.labels = None; return pod", "elasticdl_job_name=None, where the job looks for j"),
        ("pod.metadata.name += 'x'; return pod", "spec.py:3: name=elasticdl-j-worker-0x, where the job"),
        ("pod.metadata.namespace = 'n'; return pod", "namespace=n, where the job looks for default"),
    ],
)
def test_a_mistake_in_the_hook_is_told_by_its_line(written, line, told):
    blueprint = written(HARMLESS.replace("return pod", line))
    with pytest.raises(InputError) as error:
        blueprint.pod(child())
    assert told in str(error.value)


def test_a_service_that_is_not_given_back_is_told(written):
    blueprint = written(HARMLESS.replace("return service", "pass"))
    with pytest.raises(InputError, match=r"spec.py:5: with_service returned NoneType, not V1Service"):
        blueprint.master_service()


def test_the_python_file_comes_after_the_json(written):
    json = (
        '{"pod_spec": {"labels": {"my_app": "json", "site": "json"}, "env": [{"name": "A", "value": "1"}]}}'
    )
    pod = written(TUTORIAL, f"--cluster_spec_json={json}").pod(child())
    assert (pod.metadata.labels["my_app"], pod.metadata.labels["site"]) == ("elasticdl", "json")
    assert variables(pod) == {"A": "1"}


def test_what_a_hook_does_to_one_pod_does_not_show_in_the_next(written):
    longer = HARMLESS.replace("return pod", "pod.spec.tolerations[-1].key += 'x'; return pod")
    blueprint = written(longer, '--cluster_spec_json={"pod_spec": {"tolerations": [{"key": "k"}]}}')
    keys = [[each.key for each in blueprint.pod(child()).spec.tolerations][2:] for _ in range(3)]
    assert keys == [["kx"]] * 3
