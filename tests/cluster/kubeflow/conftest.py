"""Kubeflow Pipelines' own server, driver and launcher, for the tests of this folder.

They run if `ELASTICDL_KFP_TESTS` is set, on a cluster of their own: where KFP is, pipelines that are to run
on Argo would run there.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from kfp import Client

from tests.cluster.kit import kfp, kfp_images, kit
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.site import Site, free_site
from tests.cluster.kubeflow.kubeflow_table import KubeflowTable
from tests.cluster.kubeflow.trainings import Workplace, granted, shared

HERE = Path(__file__).parent
NODES = 2
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = os.environ.get("ELASTICDL_KFP_TESTS")
    unset = pytest.mark.skipif(not wanted, reason="ELASTICDL_KFP_TESTS is not set")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(unset)
            item.add_marker(pytest.mark.timeout(1800))  # the first time KFP and the images are built


@pytest.fixture(scope="session")
def pipelines() -> Iterator[kfp.Kfp]:
    """With `ELASTICDL_CLUSTER_SITE=0` it is that of `make cluster-kfp`, which stays."""
    if standing := os.environ.get("ELASTICDL_CLUSTER_SITE"):
        yield kfp.started(Cluster.opened(Site(int(standing))))
        return
    kfp.prepare()
    with free_site() as site:
        try:
            yield kfp.started(kit.up(site, nodes=NODES))
        finally:
            kit.down(site)


@pytest.fixture
def client(pipelines: kfp.Kfp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """KFP's own, as a user has it who has a kubeconfig."""
    known = str(pipelines.cluster.kubeconfig)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", known)
    with warnings.catch_warnings(action="ignore"):
        yield Client()


@pytest.fixture(scope="session")
def plain_image(pipelines: kfp.Kfp) -> str:
    """For lightweight components that need only what Python has."""
    return kfp_images.python(pipelines.cluster)


@pytest.fixture(scope="session")
def our_image(pipelines: kfp.Kfp) -> str:
    """The one that our components name."""
    return kfp_images.elasticdl(pipelines.cluster)


@pytest.fixture
def place(pipelines: kfp.Kfp, client: Client, our_image: str, tmp_path: Path) -> Iterator[Workplace]:
    """Where trainings with workers as pods run, with the rights that this takes."""
    claim = f"job-{os.getpid()}-{next(_numbers)}"
    with granted(pipelines), shared(pipelines, tmp_path, claim) as folder:
        yield Workplace(pipelines, client, our_image, folder, claim)


@pytest.fixture(scope="session")
def table() -> Iterator[KubeflowTable]:
    """What the tests have seen, for `docs/kubeflow_actions.md`."""
    made = KubeflowTable()
    yield made
    if page := os.environ.get("ELASTICDL_WRITE_KUBEFLOW"):
        made.write(Path(page))
