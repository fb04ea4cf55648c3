"""What is said and written down of a job while it goes on."""

import pytest

from elastic_runtime.master import fleet
from elastic_runtime.master.evaluation import Evaluation
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, Job, Outcome
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.narrator import Narrator
from elastic_runtime.observe import events, words
from elastic_runtime.observe.summary import read_summary
from elastic_runtime.platform.pods import ExitCause, Phase, Pod, Role
from elastic_runtime.spec.job import JobSpec

GIVEN = {"job_name": "j", "model_def": "m.py", "training_data": "d"}
SPEC = JobSpec.make(GIVEN, [])


def a_narrator(folder, display=None, **options):
    """Of a new master."""
    spec = JobSpec.make(GIVEN | {"run_dir": str(folder)} | options, [])
    narrator = Narrator(spec, folder, Job(spec, lambda row: None), display)
    narrator.begin()
    return narrator


def test_a_start_that_the_next_master_asks_for_again_is_one_start(tmp_path):
    start = fleet.StartPod("w-1", Role.WORKER, 0, ExitCause.PREEMPTED)
    for _ in range(2):
        narrator = a_narrator(tmp_path)
        narrator.starting(start)
    narrator.pod(Pod("w-1", Role.WORKER, 0, Phase.RUNNING, 0.0, pid=1), False)
    assert relaunches(tmp_path) == 1
    narrator.starting(start)
    assert relaunches(tmp_path) == 2, "the name is used again"


def test_what_a_pod_waits_for_is_said_as_long_as_it_does(tmp_path):
    waiting = Pod("w-1", Role.WORKER, 0, Phase.PENDING, 0.0, detail="no node can take it")
    for _ in range(2):
        narrator = a_narrator(tmp_path)
        narrator.starting(fleet.StartPod("w-1", Role.WORKER, 0))
        narrator.pod(waiting, False)
        assert words.fate(narrator.standing.history.life("w-1")) == "waiting: no node can take it"
    narrator.pod(Pod("w-1", Role.WORKER, 0, Phase.RUNNING, 0.0, pid=1), False)
    assert words.fate(narrator.standing.history.life("w-1")) == "running"
    assert [kind(e) for e in events.read_events(tmp_path / events.FILE_NAME)].count("PodWaiting") == 1


def test_an_end_that_two_masters_tell_is_one_end(tmp_path):
    end = Pod("w-1", Role.WORKER, 0, Phase.ENDED, 0.0, pid=1, cause=ExitCause.PREEMPTED)
    first = a_narrator(tmp_path)
    first.starting(fleet.StartPod("w-1", Role.WORKER, 0))
    first.pod(end, False)
    a_narrator(tmp_path).pod(end, True)
    assert len([e for e in events.read_events(tmp_path / events.FILE_NAME) if kind(e) == "PodEnded"]) == 1


@pytest.mark.parametrize("is_first", [True, False])
def test_a_model_that_never_was_is_not_told_to_be_back_at_its_beginning(tmp_path, caplog, is_first):
    a_narrator(tmp_path).era(Origin("fresh"), 0, is_first=is_first)
    assert ("the model is back at its beginning" in caplog.text) is not is_first
    told = [kind(e) for e in events.read_events(tmp_path / events.FILE_NAME)]
    assert ("ModelRestored" in told) is not is_first


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({}, "make --num_workers or --minibatch_size smaller"),
        ({"image_name": "i"}, "give it more by --worker_resource_request, or make --minibatch_size smaller"),
        (
            {"image_name": "i", "worker_resource_limit": "memory=9Gi"},
            "give it more by --worker_resource_limit, or make --minibatch_size smaller",
        ),
    ],
)
def test_lack_of_memory_is_said_with_its_remedy_once(tmp_path, caplog, options, remedy):
    narrator = a_narrator(tmp_path, **options)
    for name in ("w-1", "w-2"):
        narrator.pod(Pod(name, Role.WORKER, 0, Phase.ENDED, 0.0, cause=ExitCause.OUT_OF_MEMORY), False)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [f"w-1 ran out of memory: {remedy}"]


def test_a_master_that_steps_aside_leaves_a_report_of_that_moment(tmp_path):
    page, seen = tmp_path / "report.html", []
    narrator = a_narrator(tmp_path, display=lambda state: seen.append((state.message, page.exists())))
    narrator.standing.sample()
    narrator.starting(fleet.StartPod("elasticdl-j-worker-1", Role.WORKER, 0))
    narrator.standing.sample()
    assert "worker-1" not in page.read_text()
    narrator.aside("SIGTERM")
    assert "worker-1" in page.read_text()
    assert seen == [("", False), ("", True), ("SIGTERM", True)]
    assert "j stopped - ElasticDL" in page.read_text()
    assert read_summary(tmp_path / "summary.json").status == "stopped"


def test_what_was_evaluated_before_the_folder_was_lost_is_in_the_summary_and_said_once(tmp_path, caplog):
    """The journal has it: of a job that has ended, too."""
    caplog.set_level("INFO")
    job = Job(SPEC, lambda row: None)
    judge = job.machines[EVALUATION] = Evaluation([Source("d", 1)], records_per_shard=1)
    judge.results[7] = {"accuracy": 0.9}
    job.reach(7)
    job.export("/data/model")
    Narrator(SPEC, tmp_path, job, None).over(Outcome("succeeded"))
    summary = read_summary(tmp_path / "summary.json")
    assert (summary.status, summary.version, summary.model) == ("succeeded", 7, "/data/model")
    assert summary.final_metrics == {"accuracy": 0.9}
    assert "Evaluation metrics" not in caplog.text


def relaunches(folder):
    return sum(
        bool(e.because) for e in events.read_events(folder / events.FILE_NAME) if kind(e) == "PodStarted"
    )


def kind(event):
    return type(event).__name__
