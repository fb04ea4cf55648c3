"""Images for steps of pipelines on KFP, which find KFP's package in them and install nothing.

`python` has that and nothing else. `elasticdl` is the project's own, under the name that its components give;
nodes look in the cluster's registry for what has the name of no other.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from components.image import IMAGE
from tests.cluster.kit import builder
from tests.cluster.kit.cluster import Cluster

PYTHON = """\
FROM {base}
COPY constraints.txt /
RUN python -m pip install --no-cache-dir --root-user-action=ignore --no-deps -c /constraints.txt kfp
USER 1000
"""


def python(cluster: Cluster) -> str:
    """The name of the image for lightweight components that need only what Python has."""
    return _pushed(cluster, "kfp-python:kit", PYTHON.format(base=builder.base_image()))


def elasticdl(cluster: Cluster) -> str:
    """Brings the image of the components to where nodes look for it; returns its name."""
    builder.bring(builder.build("pipelines"), f"{cluster.site.registry}/{IMAGE}")
    for node in cluster.nodes:  # it has a fixed name, under which a node may know an older one
        node.machine.run("ctr", "--namespace=k8s.io", "images", "rm", f"docker.io/{IMAGE}", check=False)
    return IMAGE


def _pushed(cluster: Cluster, name: str, dockerfile: str) -> str:
    """Builds an image, which is quick if it was built before, and pushes it."""
    mark = hashlib.sha256(dockerfile.encode()).hexdigest()[:12]
    local, full = f"localhost/kfp-steps:{mark}", f"{cluster.site.registry}/{name}"
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        (context / "Dockerfile").write_text(dockerfile)
        shutil.copy(builder.ROOT / "constraints.txt", context)
        builder.buildah("build", "--quiet", "-t", local, context)
    builder.bring(local, full)
    return full
