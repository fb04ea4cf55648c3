"""An image that was built through the registry's API alone is one like any other to a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic_runtime.steps.build_image import build_image
from tests.cluster.kit import builder
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.objects import pod

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
