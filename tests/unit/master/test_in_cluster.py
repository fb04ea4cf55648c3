"""A master in a pod: what of an earlier one it goes on with, and what it leaves of a job that succeeded."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from pathlib import Path

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.master import in_cluster
from elastic_runtime.master.journal import FileStore
from elastic_runtime.master.journal.rows import RECORD, Row, checksum
from elastic_runtime.master.prepare import JOURNAL_FILE
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.config_map import ConfigMapStore
from elastic_runtime.platform.kubernetes.errors import Away, Forbidden
from elastic_runtime.platform.kubernetes.journal_place import KEY
from elastic_runtime.platform.kubernetes.objects import Blueprint
from elastic_runtime.platform.overtaken import Overtaken
from elastic_runtime.platform.pods import Role, pod_name
from elastic_runtime.spec.job import JobSpec
from tests.unit.platform.kubernetes.plans import TUTORIAL
from tests.unit.platform.kubernetes.small_api import SmallApi

ANCHOR = ("ConfigMap", "elasticdl-j")


class Namespace(SmallApi):
    """Of a server that is away for so long."""

    def __init__(self) -> None:
        super().__init__()
        self.patience, self.outage = 60.0, 0.0
        self.refuses: Exception | None = None

    def patient(self, seconds: float) -> Namespace:
        other = copy.copy(self)
        other.patience = seconds
        return other

    def require_pods(self) -> None:
        """They are granted."""

    def close(self) -> None:
        """There is nothing to end."""

    def delete_config_map(self, name: str) -> None:
        if self.outage >= self.patience:
            raise Away("the API server has not answered", where="Kubernetes")
        if self.refuses:
            raise self.refuses
        super().delete_config_map(name)


def spec(**options: object) -> JobSpec:
    given = {"job_name": "j", "image_name": "i", "training_data": "/d", "model_def": "a.b", "namespace": "n"}
    return JobSpec.make({**given, **options}, [])


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Namespace:
    made = Namespace()
    made.create_pod(Blueprint.of(spec()).master_pod(["python"]))
    monkeypatch.setattr(Api, "connect", lambda *_, **__: made)
    for name, value in {"POD": pod_name("j", Role.MASTER), "POD_IP": "10.0.0.1", "TOKEN": "t"}.items():
        monkeypatch.setenv(f"ELASTICDL_{name}", value)
    return made


def test_a_master_goes_by_its_pods_account_whatever_its_client_went_by(
    api: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(Api, "connect", lambda namespace, **how: asked.append((namespace, how)) or api)
    in_cluster.in_a_pod(spec(force_use_kube_config_file=True))
    assert asked == [("n", {})]


def test_a_step_does_not_take_up_what_was_left_of_other_work(api: Namespace) -> None:
    in_cluster.in_a_pod(spec(training_data="/before"), in_step=True)
    with pytest.raises(InputError, match=r"--training_data=/before became /d \(.*clean_up") as refused:
        in_cluster.in_a_pod(spec(), in_step=True)
    assert "--restart" not in str(refused.value)
    in_cluster.in_a_pod(spec(training_data="/before", num_workers=7), in_step=True)


def test_a_step_that_is_run_again_goes_by_the_cluster_spec_that_it_has_now(
    api: Namespace, tmp_path: Path
) -> None:
    rules = tmp_path / "spec.py"
    for key in ("misspelt", "right"):
        rules.write_text(TUTORIAL.replace("mycluster.com/app-pool", key))
        in_cluster.in_a_pod(spec(cluster_spec=str(rules)), in_step=True)
    assert '"right"' in api.others[ANCHOR].data["cluster_spec.py"]


def rows(*bodies: str) -> list[Row]:
    """As a journal numbers and chains them."""
    made, chain = [], 0
    for number, body in enumerate(bodies, start=1):
        chain = checksum(RECORD, body, chain)
        made.append((number, RECORD, body, chain))
    return made


def write(api: Namespace, *bodies: str) -> ConfigMapStore:
    """A journal in the job's anchor, and its writer."""
    in_cluster.in_a_pod(spec())
    store = ConfigMapStore(api, "elasticdl-j")
    store.load()
    store.append(rows(*bodies))
    return store


def journal(**options: object) -> Sequence[Row]:
    """What the next master finds of it."""
    store = in_cluster.in_a_pod(spec(**options)).store
    found = list(store.load())
    store.close()
    return found


@pytest.fixture
def volume(tmp_path: Path) -> dict[str, object]:
    """Options of a job whose run folder is on one; its pods see it where this machine does."""
    return {"volume": f"claim_name=c,mount_path={tmp_path}", "run_dir": str(tmp_path / "run")}


def test_a_journal_goes_with_the_job_from_its_anchor_to_a_volume(
    api: Namespace, volume: dict[str, object]
) -> None:
    before = write(api, "1", "2")
    assert journal(**volume) == rows("1", "2")
    anchor = api.others[ANCHOR]
    assert [key for key in (*anchor.data, *anchor.binary_data) if key.startswith("journal.")] == [KEY]
    assert anchor.data[KEY] == "claim c: run"
    with pytest.raises(Overtaken):
        before.append(rows("1", "2", "3")[2:])
    assert journal(**volume) == rows("1", "2")


def test_a_master_that_was_lost_on_the_way_to_the_volume_loses_nothing(
    api: Namespace, volume: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(api, "1", "2")
    with monkeypatch.context() as lost:
        lost.setattr(ConfigMapStore, "hand_over", lambda *_: None)
        journal(**volume)
    assert KEY not in api.others[ANCHOR].data
    assert journal(**volume) == rows("1", "2")
    assert KEY in api.others[ANCHOR].data


def test_another_journal_on_the_volume_is_not_taken_for_the_jobs_own(
    api: Namespace, volume: dict[str, object]
) -> None:
    left = FileStore(Path(str(volume["run_dir"])) / JOURNAL_FILE)
    left.append(rows("of another"))
    left.close()
    write(api, "1", "2")
    with pytest.raises(InputError, match="there is another journal than the one that the job has"):
        journal(**volume)


def test_a_master_does_not_begin_anew_because_it_is_told_another_place(
    api: Namespace, volume: dict[str, object]
) -> None:
    journal(**volume)
    with pytest.raises(InputError, match="is on a volume, claim c: run, and would not be found in its Con"):
        journal()
    assert journal(**volume) == []


def end(api: Namespace, *, in_step: bool) -> None:
    """A job that has succeeded."""
    surroundings = in_cluster.in_a_pod(spec(), in_step=in_step)
    asyncio.run(surroundings.forget(True))


def test_a_step_that_is_lost_before_it_has_the_model_finds_the_journal_of_its_job(api: Namespace) -> None:
    end(api, in_step=True)
    assert ANCHOR in api.others
    in_cluster.forget(api, spec())
    assert ANCHOR not in api.others


def test_nothing_has_to_be_fetched_from_the_job_of_any_other_master(api: Namespace) -> None:
    end(api, in_step=False)
    assert ANCHOR not in api.others


def test_a_job_that_succeeded_while_the_server_is_away_waits_for_it(api: Namespace) -> None:
    api.outage = 600
    end(api, in_step=False)
    assert ANCHOR not in api.others


def test_a_job_that_succeeded_has_not_failed_because_something_is_left(
    api: Namespace, caplog: pytest.LogCaptureFixture
) -> None:
    api.refuses = Forbidden("configmaps is forbidden", where="Kubernetes")
    end(api, in_step=False)
    assert "left behind: config map elasticdl-j of namespace n" in caplog.text
    assert "configmaps is forbidden" in caplog.text
