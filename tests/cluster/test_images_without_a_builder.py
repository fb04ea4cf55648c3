"""An image that was built through the registry's API alone is one like any other to a node."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest
from hera.workflows import DAG, Workflow

from elastic_runtime.steps.build_image import build_image
from elasticdl_components import argo
from tests.cluster.kit import builder
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.objects import pod
from tests.process.image.registries import PASSWORD, USER, htpasswd, registry

ROOT = Path(__file__).parents[2]
ANYBODY = {"runAsUser": 123456, "runAsNonRoot": True}
pytestmark = pytest.mark.timeout(2400)  # the first time the base image is built


def test_a_pod_finds_the_models_and_the_runtime_in_it(
    cluster: Cluster, namespace: Namespace, tmp_path: Path
) -> None:
    registry = cluster.site.registry
    name = builder.push(cluster, "base")
    for version in ("old", "new"):  # the second on top of the first, whose models are to be gone
        zoo = tmp_path / version
        (zoo / version).mkdir(parents=True, mode=0o700)
        (zoo / version / "model.py").write_text(f"VERSION = {version!r}\n")
        (zoo / version / "model.py").chmod(0o600)
        name = build_image(
            base_image=name,
            repository=f"{registry}/team/models:{version}",
            model_zoo=str(zoo),
            insecure_registries=registry,
        )
    script = "find /model_zoo -type f -exec cat {} + && python -m elastic_runtime.ps --help"
    namespace.apply(pod("ps", name, "sh", "-c", script, securityContext=ANYBODY))
    namespace.wait_for_phase("Succeeded", "pod/ps", seconds=600)  # its node has to pull the image
    told = namespace.kubectl("logs", "ps")
    assert told.startswith("VERSION = 'new'\n")
    assert "VERSION = 'old'" not in told
    assert "--ps_id" in told


def test_a_step_on_argo_opens_a_registry_by_the_secret_that_is_named(
    cluster: Cluster, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.kubectl("apply", "-f", ROOT / "manifests" / "elasticdl-argo-rbac.yaml")
    base, locked = builder.push(cluster, "base"), htpasswd(tmp_path / "locked")
    with registry(tmp_path / "locked", http={"addr": f"{cluster.site.outside}:0"}, auth=locked) as address:
        login = {"auths": {address: {"auth": b64encode(f"{USER}:{PASSWORD}".encode()).decode()}}}
        kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
        secret = {"metadata": {"name": "mine"}, "stringData": {".dockerconfigjson": json.dumps(login)}}
        namespace.apply(kind | secret)
        with Workflow(name="build", entrypoint="main") as workflow, DAG(name="main"):
            argo.build_image(
                repository=f"{address}/me/model",
                model_zoo="/opt/elasticdl",  # a folder that the step's image has
                base_image=base,
                image_name=base,
                insecure_registries=f"{address},{cluster.site.registry}",
                login_secret="mine",
            )
        namespace.apply(workflow.to_dict())
        namespace.wait_for_phase("Succeeded", "workflow/build", seconds=300)
    nodes = namespace.get("workflow", "build")["status"]["nodes"].values()
    [[made]] = [node["outputs"]["parameters"] for node in nodes if node["type"] == "Pod"]
    assert made["value"].startswith(f"{address}/me/model@sha256:")
