"""The course of the training step around its job: where it runs, and what outlives what."""

from __future__ import annotations

from pathlib import Path

import pytest
from kfp.dsl import TaskConfig

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.observe.live_state import LiveState
from elastic_runtime.observe.outcome import REPORT_NAME
from elastic_runtime.observe.summary import FILE_NAME, Summary, write_summary
from elastic_runtime.platform.kubernetes.own_pod import settings_of
from elastic_runtime.platform.overtaken import Overtaken
from elastic_runtime.platform.pods import EXIT_DRAINED
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.steps import Folder, job_outputs, train
from tests.unit.platform.kubernetes.step_pod import step_pod

MODEL = "def custom_model(): ...\ndef loss(): ...\ndef optimizer(): ...\ndef feed(): ...\n"


class Pod:
    """A step in a pod of a cluster, with a job that does nothing but succeed; what happens, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.happened, self.error, self.code = folder, [], None, 0
        self.spec: JobSpec | None = None
        (folder / "zoo").mkdir()
        (folder / "zoo" / "m.py").write_text(MODEL)

    def options_of_the_pod(self, values: object, *, model: str) -> dict[str, object]:
        volume = f"host_path={self.folder},mount_path={self.folder}"
        run_dir, output = str(self.folder / "run"), str(self.folder / "made")
        return {"platform": "kubernetes", "volume": volume, "run_dir": run_dir, "output": output}

    def run(self, spec: JobSpec, show: object, *, in_step: bool) -> int:
        self.spec = spec
        assert in_step
        Path(spec.output).mkdir()
        write_summary(Summary(job="j", status="succeeded", records_done=3), Path(spec.run_dir, FILE_NAME))
        Path(spec.run_dir, REPORT_NAME).write_text("curves")
        show(LiveState(records_done=3))
        if self.error:
            raise self.error
        self.happened.append("failed" if self.code else "succeeded")
        return self.code

    def forget_job(self, spec: JobSpec) -> None:
        assert (self.folder / "model").is_dir()
        self.happened.append("forgotten")

    def leave_nothing_that_nobody_removes(self, spec: JobSpec) -> None:
        self.happened.append("left to whoever comes after, if anybody does")

    def train(self, **options: object) -> None:
        made = {name: Folder(str(self.folder / name)) for name in ("model", "metrics", "report", "pods")}
        given = {"job_name": "j", "model_zoo": str(self.folder / "zoo"), "model_def": "m.custom_model"}
        train.train(**made, training_data=str(self.folder), **given, **options)


class Silent:
    """The lines of pods of which there are none."""

    def see(self, _: object) -> None: ...

    def close(self, *, pods_go_on: bool) -> None: ...


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    monkeypatch.chdir(tmp_path)  # a run folder of its own is there by default
    made = Pod(tmp_path)
    for name in ("options_of_the_pod", "run", "forget_job", "leave_nothing_that_nobody_removes"):
        monkeypatch.setattr(train, name, getattr(made, name))
    monkeypatch.setattr(train, "is_in_cluster", lambda: True)
    monkeypatch.setattr(train, "take_the_masters_place", lambda _: None)
    monkeypatch.setattr(job_outputs, "follow_pods", lambda _: Silent())
    return made


@pytest.mark.parametrize("image", ["image_name", "worker_image", "ps_image"])
def test_a_job_of_which_any_image_is_named_runs_on_kubernetes(pod: Pod, image: str) -> None:
    pod.train(**{image: "i"})
    assert pod.spec is not None
    assert (pod.spec.platform, pod.spec.output) == ("kubernetes", str(pod.folder / "made"))


def test_a_job_takes_from_the_steps_pod_what_kfp_does_not_tell_the_step(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = step_pod(nodeSelector={"pool": "train"}, resources={"limits": {"cpu": "2"}})
    monkeypatch.setattr(train, "settings_of_the_pod", lambda: settings_of(own))
    with caplog.at_level("INFO"):
        pod.train(image_name="i", worker_resource_request="cpu=4")
    assert pod.spec is not None
    assert (pod.spec.node_selector, pod.spec.worker_resource_request) == ("pool=train", "cpu=4")
    assert pod.spec.ps_resource_limit == "cpu=2"
    told = "ps_resource_request=cpu=2; ps_resource_limit=cpu=2; node_selector=pool=train"
    assert f"the job's pods get, as this step has it: {told}" in caplog.messages


def test_what_kfp_tells_the_step_is_all_that_was_set(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "settings_of_the_pod", lambda: pytest.fail("the pod is not asked"))
    pod.train(image_name="i", task_config=TaskConfig(node_selector={"pool": "told"}))
    assert pod.spec is not None
    assert pod.spec.node_selector == "pool=told"


def test_workers_that_are_processes_have_what_the_step_has(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "settings_of_the_pod", lambda: pytest.fail("the pod is not asked"))
    pod.train()


def test_what_a_lost_step_goes_on_from_is_there_until_the_model_is_delivered(pod: Pod) -> None:
    (pod.folder / "model").write_text("in the way")
    with pytest.raises(ElasticError, match="the job is not trained again"):
        pod.train(image_name="i")
    assert pod.happened == ["succeeded"]


def test_a_step_that_trained_in_processes_says_where_its_model_is_if_it_cannot_be_delivered(pod: Pod) -> None:
    (pod.folder / "model").write_text("in the way")
    with pytest.raises(ElasticError, match="what it has made is in /") as told:
        pod.train()
    assert "not trained again" not in str(told.value)


def test_of_a_job_whose_model_is_delivered_nothing_is_kept(pod: Pod) -> None:
    pod.train(image_name="i")
    assert pod.happened == ["succeeded", "forgotten"]


def test_what_is_kept_of_a_job_that_failed_is_for_whoever_comes_after(pod: Pod) -> None:
    pod.code = 1
    with pytest.raises(ElasticError):
        pod.train(image_name="i")
    assert pod.happened == ["failed", "left to whoever comes after, if anybody does"]


def test_the_report_of_a_job_is_not_lost_to_an_error_after_its_begin(pod: Pod) -> None:
    pod.error = ElasticError("something at the very end")
    with pytest.raises(ElasticError, match="at the very end"):
        pod.train(image_name="i")
    assert (pod.folder / "report").read_text() == "curves"
    assert '"records": 3' in (pod.folder / "metrics").read_text()


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that the step has seen to the end of."""
    jobs: list[str] = []
    monkeypatch.setattr(train, "end_unless_continued", lambda spec: bool(jobs.append(spec.job_name)))
    return jobs


def test_a_step_that_is_told_to_end_sees_to_its_jobs_pods(
    pod: Pod, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told_to_end(*given: object, **named: object) -> int:
        pod.run(*given, **named)
        return EXIT_DRAINED

    monkeypatch.setattr(train, "run", told_to_end)
    with pytest.raises(ElasticError, match="the step was told to end"):
        pod.train(image_name="i")
    assert ended == ["j"]


def test_a_step_whose_job_goes_on_with_another_master_ends_nothing_of_it(pod: Pod, ended: list[str]) -> None:
    pod.error = Overtaken("another master has taken over")
    with pytest.raises(Overtaken) as told:
        pod.train(image_name="i")
    assert (ended, pod.happened) == ([], [])
    assert told.value.exit_code == EXIT_DRAINED, "an engine that runs it again is told what there is"


def test_what_was_wrong_before_its_begin_is_the_report(pod: Pod) -> None:
    with pytest.raises(InputError):
        pod.train(image_name="i", volume="mount_path=/d")
    assert "volume" in (pod.folder / "report").read_text()


def test_data_that_are_named_twice_are_refused_when_the_step_starts(pod: Pod) -> None:
    with pytest.raises(InputError, match="both training_data and training_dataset are given"):
        pod.train(training_dataset=Folder(str(pod.folder)))
    assert pod.spec is None
    assert "both training_data and training_dataset" in (pod.folder / "report").read_text()


def test_parts_of_no_dataset_are_refused_when_the_step_starts(pod: Pod) -> None:
    for part in ("training_split", "validation_split"):
        with pytest.raises(InputError, match=f"{part}: there is no dataset"):
            pod.train(**{part: "test"})
