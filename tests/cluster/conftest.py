"""The cluster of a test session, and a namespace of its own for each test.

Where the machine cannot have a cluster, its tests are skipped and say why; where `ELASTICDL_CLUSTER_TESTS` is
`required`, they fail instead. What a cluster needs is installed and built before the first test, outside the
time of any; what Kubeflow Pipelines need beyond it, while the tests before theirs run.
"""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elastic_runtime.errors import ElasticError
from tests import took
from tests.cluster.jobs import ClusterJob
from tests.cluster.kit import builder, kfp, kit
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.kfp_ahead import Ahead
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.requirements import why_not
from tests.cluster.kit.site import Site, free_site

HERE = Path(__file__).parent
KUBEFLOW = HERE / "kubeflow"
RIGHTS = HERE.parent.parent / "manifests" / "elasticdl-rbac.yaml"
NODES = 3
AHEAD = pytest.StashKey[Ahead]()
"""Who makes the programs of Kubeflow Pipelines, if any test of the session needs them."""
_numbers = itertools.count(1)


@functools.cache
def impossible() -> str:
    """Why there is no cluster here, or none wanted: `K8S_TESTS=False`, as the old tutorials type it."""
    if os.environ.get("K8S_TESTS", "").lower() == "false":
        return "K8S_TESTS=False"
    return why_not()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Last of all: the cluster lives to the end of the session, and shall not run beside other tests.

    And of those the ones of Kubeflow Pipelines: where that is, pipelines for Argo would run there.
    """
    items.sort(key=lambda item: (HERE in item.path.parents, KUBEFLOW in item.path.parents))


def pytest_collection_finish(session: pytest.Session) -> None:
    ours = [item for item in session.items if HERE in item.path.parents]
    if not ours or session.config.option.collectonly or impossible():
        return
    fixtures = {name for item in ours for name in item.fixturenames}
    with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        try:
            kit.prepare()
            if {"job_image", "images", "our_image"} & fixtures:
                builder.build_all()
            if "pipelines" in fixtures and not kfp.why_not():
                session.config.stash[AHEAD] = Ahead.begun()
        except ElasticError as error:
            kit.say(f"{error}")  # each test of the cluster says it again, and the others can run


def pytest_sessionfinish(session: pytest.Session) -> None:
    _note_the_checks_without_kubeflow()
    if ahead := session.config.stash.get(AHEAD, None):
        ahead.close()


@functools.cache
def _note_the_checks_without_kubeflow() -> None:
    """When its first test begins, all others of this lane are over; the last lane's note counts."""
    if checks := os.environ.get("ELASTICDL_CHECKS"):
        began = float(os.environ["ELASTICDL_CHECKS_BEGAN"])
        took.note(f"{checks}, before the tests of KFP", time.time() - began)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Here and not in a fixture, so that all the skipped tests share one line of the summary."""
    if KUBEFLOW in item.path.parents:
        _note_the_checks_without_kubeflow()
    if not (reason := impossible()):
        return
    if os.environ.get("ELASTICDL_CLUSTER_TESTS") == "required":
        pytest.fail(f"cluster tests are required here, and cannot run: {reason}", pytrace=False)
    pytest.skip(f"no cluster on this machine: {reason}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of three nodes, for all tests of the session; whoever breaks something in it heals it.

    With `ELASTICDL_CLUSTER_SITE=0` it is that of `make cluster`, which stays.
    """
    if standing := os.environ.get("ELASTICDL_CLUSTER_SITE"):
        yield Cluster.opened(Site(int(standing)))
        return
    with free_site() as site:
        try:
            yield kit.up(site, nodes=NODES)
        finally:
            _take_down(site)


def _take_down(site: Site) -> None:
    """And leave its disks, which to remove takes a minute or two, to a process that nobody waits for."""
    if site.folder.exists():
        site.folder.rename(site.folder.with_name(f"gone-{site.number}-{os.getpid()}"))
    kit.down(site)
    unheard = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.Popen(["rm", "-rf", *site.folder.parent.glob("gone-*")], start_new_session=True, **unheard)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """A new namespace, which nobody waits for at its end."""
    made = Namespace.create(cluster, f"test-{os.getpid()}-{next(_numbers)}")
    yield made
    made.delete()


@pytest.fixture
def site() -> Iterator[Site]:
    """Room for one more cluster, that the test brings up itself; nothing of it is left after the test."""
    with free_site() as site:
        try:
            yield site
        finally:
            kit.down(site)


@pytest.fixture
def make_job(namespace: Namespace, job_image: str, tmp_path: Path) -> Iterator[Callable[..., ClusterJob]]:
    """Makes jobs in a namespace whose masters have the rights they need."""
    namespace.kubectl("apply", "-f", RIGHTS)
    made: list[ClusterJob] = []

    def make(*options: str, name: str = "j") -> ClusterJob:
        made.append(ClusterJob(namespace, tmp_path / "job", job_image, *options, name=name))
        return made[-1]

    yield make
    for job in made:
        job.close()


@pytest.fixture(scope="session")
def job_image(cluster: Cluster) -> str:
    """The image that users get, with TensorFlow and Horovod in it."""
    return builder.images(cluster).tensorflow
