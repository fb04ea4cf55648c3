"""The other pipelines where there is an Argo, by their commands, to their ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from elastic_runtime.platform.kubernetes.labels import ROLE
from pipelines.sweep import TRAININGS
from tests.cluster.argo_pipelines import ROOT, SLOWLY, PipelineRun
from tests.cluster.argo_steps import FOLDER
from tests.cluster.kit import faults, s3
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace

pytestmark = [pytest.mark.timeout(1800)]

LEFT_SECONDS = 240
WORKER = 100  # millicores, as of all workers of these tests
OTHERS = 300  # of three steps and their three parameter servers
PACE = 0.3  # a record: an epoch takes ten minutes
PEOPLE = f"--param=source={FOLDER}/model_zoo/census/data/adult_sample.csv"
IMAGES = f"--param=source={FOLDER}/model_zoo/cifar10/data/cifar10_sample.npz"
MakePipeline = Callable[..., PipelineRun]


@pytest.fixture(scope="module")
def store(cluster: Cluster) -> s3.Store:
    return s3.started(cluster)


@pytest.fixture
def make(namespace: Namespace, store: s3.Store, job_image: str, tmp_path: Path) -> Iterator[MakePipeline]:
    """In a namespace made ready as `docs/argo.md` says."""
    store.configure(namespace)
    namespace.kubectl("apply", "-f", ROOT / "manifests" / "elasticdl-argo-rbac.yaml")
    made: list[PipelineRun] = []

    def make_one(script: str, **more: tuple[str, ...]) -> PipelineRun:
        made.append(PipelineRun(namespace, tmp_path / script, job_image, script, **more))
        return made[-1]

    yield make_one
    for run in made:
        run.close()


def assert_all_went_well(run: PipelineRun) -> None:
    assert run.code() == 0, run.said() + run.report()
    assert re.search(rf"^{run.name} succeeded in ", run.out.read_text(), re.M)
    run.until_nothing_is_left(LEFT_SECONDS)


def test_p1_a_table_is_trained_on_by_servers_and_images_by_allreduce(make: MakePipeline) -> None:
    """Side by side, as two users would."""
    people, images = make("census"), make("cifar10_allreduce")
    people.begin(PEOPLE, "--param=num_epochs=1")
    images.begin(IMAGES, "--param=num_epochs=4")
    assert_all_went_well(people)
    assert_all_went_well(images)
    told = people.results()
    assert told["convert", "records"] == "5000"
    assert float(told["train", "best_metric"]) > 0.75  # as many earn no more than 50K
    assert re.search(r"^evaluate +1017 records in .*accuracy 0\.\d+", people.out.read_text(), re.M)
    assert told["predict", "records"] == "1017"
    told = images.results()
    assert (told["convert", "records"], told["convert-2", "records"]) == ("400", "100")
    assert "succeeded: 1 600 records in 4 epochs" in images.out.read_text()
    assert re.search(r"world \d+: 2 workers train together", images.log())


def test_p1_trainings_of_a_sweep_share_a_full_cluster_by_their_priorities(
    make: MakePipeline, cluster: Cluster
) -> None:
    """Of six workers four have room: the three that are `high`, whoever came first, and one other."""
    cluster.kubectl("apply", "-f", ROOT / "manifests" / "elasticdl-priorities.yaml")
    run = make("sweep", trainings=tuple(TRAININGS))
    model = run.folder / "model_zoo" / "census" / "census_wide_and_deep.py"
    model.write_text(model.read_text() + SLOWLY)
    run.pace(PACE)

    def at_work() -> list[str]:
        query = ("pods", "-l", f"{ROLE}=worker", "--field-selector=status.phase=Running")
        return sorted(pod["spec"]["priorityClassName"] for pod in run.namespace.get(*query)["items"])

    here = cluster.nodes[0].name
    with ExitStack() as others:
        for node in cluster.nodes:
            room = OTHERS + 4 * WORKER if node.name == here else 0
            taken = faults.free(cluster, node.name) - room
            others.enter_context(faults.preempted(cluster, node.name, millicores=taken))
        run.begin(PEOPLE, "--param=num_epochs=1")
        run.until(lambda: at_work() == ["high", "high", "high", "low"], "those that are `high` work")
        run.pace(0)
        assert_all_went_well(run)
    told = run.results()
    found = {name: float(told[name, "best_metric"]) for name in TRAININGS}
    assert min(found.values()) > 0.75
    best = max(found, key=found.__getitem__)
    assert re.search(rf"^compare +{best} is the best, ", run.out.read_text(), re.M)
    assert len(re.findall(r"succeeded: 3 983 records in 1 epoch", run.out.read_text())) == len(TRAININGS)
