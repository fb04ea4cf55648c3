"""Kubeflow Pipelines' own server, driver and launcher, in the cluster of the session."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kfp import Client

from tests.cluster.conftest import AHEAD
from tests.cluster.kit import kfp, kfp_images
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kubeflow.ended import connected
from tests.cluster.kubeflow.kubeflow_table import KubeflowTable
from tests.cluster.kubeflow.surroundings import granted, shared
from tests.cluster.kubeflow.trainings import Workplace

HERE = Path(__file__).parent
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(3600))  # each wait has its own, shorter limit


def pytest_runtest_setup() -> None:
    """As the cluster's own, which runs before this one."""
    if not (reason := kfp.why_not()):
        return
    if os.environ.get("ELASTICDL_CLUSTER_TESTS") == "required":
        pytest.fail(f"cluster tests are required here, and these cannot run: {reason}", pytrace=False)
    pytest.skip(f"no Kubeflow Pipelines on this machine: {reason}")


@pytest.fixture(scope="session")
def pipelines(cluster: Cluster, pytestconfig: pytest.Config) -> kfp.Kfp:
    """It stays as long as the cluster does."""
    if ahead := pytestconfig.stash.get(AHEAD, None):
        ahead.wait()
    return kfp.started(cluster)


@pytest.fixture
def client(pipelines: kfp.Kfp) -> Iterator[Client]:
    """KFP's own."""
    with connected(pipelines) as client:
        yield client


@pytest.fixture(scope="session")
def plain_image(pipelines: kfp.Kfp) -> str:
    """For lightweight components that need only what Python has."""
    return kfp_images.python(pipelines.cluster)


@pytest.fixture(scope="session")
def our_image(pipelines: kfp.Kfp) -> str:
    """The one that our components name."""
    return kfp_images.elasticdl(pipelines.cluster)


@pytest.fixture(scope="module")
def place(
    pipelines: kfp.Kfp, our_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workplace]:
    """Where trainings with workers as pods run, with the rights that this takes."""
    claim, folder = f"job-{os.getpid()}-{next(_numbers)}", tmp_path_factory.mktemp("place")
    with connected(pipelines) as client, granted(pipelines), shared(pipelines, folder, claim) as place:
        yield Workplace(pipelines, client, our_image, place, claim)


@pytest.fixture(scope="session")
def table() -> Iterator[KubeflowTable]:
    """What the tests have seen, for `docs/kubeflow_actions.md`."""
    made = KubeflowTable()
    yield made
    made.write()
