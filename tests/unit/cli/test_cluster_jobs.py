"""`elasticdl job` in a cluster: what it makes of broken lines, of a master that says no, and of none."""

from __future__ import annotations

import json

import pytest

from elastic_runtime.cli import cluster_jobs
from elastic_runtime.cli.main import main
from elastic_runtime.master import ledger
from elastic_runtime.master.job import TRAINING, Job
from elastic_runtime.master.journal.rows import RECORD, checksum
from elastic_runtime.master.ledger import Source
from elastic_runtime.platform.kubernetes import log
from elastic_runtime.platform.kubernetes.config_map import ConfigMapStore
from elastic_runtime.platform.kubernetes.errors import CutOff, Forbidden, NotThere
from tests.unit.platform.kubernetes.plans import child, plan
from tests.unit.platform.kubernetes.small_api import Lines, SmallApi, ends, is_on_a_node, runs

MASTER = "elasticdl-j-master"
POD = "elasticdl-j-worker-0"


class Logged(SmallApi):
    """A log can be looked at so often; each look is what happens first, and the lines that come through."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = []
        self.after = goes_on

    def pod_log(self, name, *, container, follow=False):
        assert container == "worker"
        happens, *lines = self.looks.pop(0)
        happens(self)
        if name not in self.pods:
            raise NotThere(f"pods {name!r} not found")
        return Told(self, lines)


class Told(Lines):
    """The lines of a look; something happens after the last of them."""

    def __init__(self, api, lines):
        super().__init__(lines)
        self._api = api

    def __iter__(self):
        yield from super().__iter__()
        self._api.after(self._api)


@pytest.fixture
def api(monkeypatch):
    made = Logged()
    monkeypatch.setattr(cluster_jobs.Api, "connect", lambda *_, **__: made)
    monkeypatch.setattr(log, "AGAIN_SECONDS", 0.0)
    runs(made.create_pod(plan().pod(child())))
    return made


@pytest.fixture
def tell(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["job", *arguments, "--namespace=n"])
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return run


def goes_on(api):
    """It runs as before."""


def has_ended(api):
    ends(api.pods[POD], 0)


def is_gone(api):
    del api.pods[POD]


def is_replaced(api):
    is_gone(api)
    runs(api.create_pod(plan().pod(child())))


@pytest.mark.parametrize(
    "looks",
    [
        [(goes_on, "a"), (goes_on,), (goes_on, "a", "b"), (has_ended, "a", "b", "c"), (goes_on, *"abc")],
        [(has_ended, "a"), (goes_on, "a", "b"), (goes_on, *"abc"), (goes_on, *"abc")],
    ],
    ids=["while it runs", "after its end"],
)
def test_a_log_is_followed_to_the_pods_end_however_often_the_line_breaks(api, tell, looks):
    api.looks = looks
    assert tell("logs", "j", "worker-0", "-f") == (0, "a\nb\nc\n", "")
    assert api.looks == []


def test_the_log_of_a_pod_that_has_ended_is_whole(api, tell):
    has_ended(api)
    api.looks = [(goes_on, "a"), (goes_on, "a", "b"), (goes_on, "a", "b")]
    assert tell("logs", "j", "worker-0") == (0, "a\nb\n", "")


def test_without_f_nobody_waits_for_a_pod_that_runs(api, tell):
    api.looks = [(goes_on, "a")]
    assert tell("logs", "j", "worker-0") == (0, "a\n", "")


@pytest.mark.parametrize("happens", [is_gone, is_replaced])
def test_following_ends_with_the_pod_not_with_the_next_of_its_name(api, tell, happens):
    api.looks, api.after = [(goes_on, "a")], happens
    assert tell("logs", "j", "worker-0", "-f") == (0, "a\n", "")


def test_a_follower_who_is_refused_is_told(api, tell):
    def refuses(_):
        raise Forbidden("pods is forbidden", where="Kubernetes")

    api.looks = [(goes_on, "a"), (refuses,)]
    assert tell("logs", "j", "worker-0", "-f") == (1, "a\n", "error: Kubernetes: pods is forbidden\n")


@pytest.fixture
def master(api):
    made = api.create_pod(plan().master_pod(("python",)))
    runs(made)
    api.create_config_map(plan().anchor())
    return made


def answers(monkeypatch, answer):
    """What comes of the command in the master's pod."""

    def run_in_pod(namespace, pod, command, *, container, out, err):
        assert (namespace, pod, container) == ("n", MASTER, "master")
        return answer(err)

    monkeypatch.setattr(cluster_jobs, "run_in_pod", run_in_pod)


def test_a_master_that_cannot_be_asked_to_stop_is_told_at_once(tell, master, monkeypatch):
    def fails(err):
        err("error: j: the master does not answer\n")
        return 1

    answers(monkeypatch, fails)
    monkeypatch.setattr(cluster_jobs, "await_end", lambda *_, **__: pytest.fail("it waits"))
    code, out, err = tell("stop", "j")
    assert (code, out) == (1, "")
    said, concluded = err.splitlines()
    assert said == "error: j: the master does not answer"
    assert "failed with exit code 1" in concluded
    assert "`elasticdl job clean j -n n --force` ends the job at once" in concluded


@pytest.mark.parametrize("how", ["in order", "killed with its pod", "cut off"])
def test_a_stop_waits_for_the_end_of_the_master_in_whose_pod_it_ran(tell, master, monkeypatch, how):
    def stops(_):
        ends(master, 130)
        if how == "cut off":
            raise CutOff("the command's end was not told")
        return 137 if how == "killed with its pod" else 0

    answers(monkeypatch, stops)
    assert tell("stop", "j") == (0, "job j: stopped\n", "")


DATA = {TRAINING: [Source("d", 640)]}


def journal_of(finished):
    """Rows of a job of 640 records, so many shards of which are done."""
    records = []
    job = Job(plan("--minibatch_size=8", "--num_minibatches_per_task=8").spec, records.append)
    job.begin(DATA)
    for version in range(1, finished + 1):
        (granted,) = job.tell(TRAINING, ledger.Ask("w", 0.0))
        job.tell(TRAINING, ledger.Finished("w", granted.lease, version, 0.0))
    rows, chain = [], 0
    for number, record in enumerate(records, start=1):
        body = json.dumps(record)
        chain = checksum(RECORD, body, chain)
        rows.append((number, RECORD, body, chain))
    return rows


@pytest.fixture
def left(api):
    """A job of which three shards are done, and whose master is lost; and somebody else's."""
    options = ("--minibatch_size=8", "--num_minibatches_per_task=8", "--num_epochs=2")
    api.create_config_map(plan(*options).anchor())
    store = ConfigMapStore(api, "elasticdl-j")
    store.load()
    store.append(journal_of(3))
    other = plan("--job_name=jj").master_pod(("python",))
    runs(api.create_pod(other))
    return api


def master_of(api, become=lambda _: None):
    made = api.create_pod(plan().master_pod(("python",)))
    become(made)
    return made


def test_a_job_without_master_tells_how_far_it_is(left, tell):
    code, out, err = tell("status", "j")
    assert (code, err) == (0, "")
    first, second, *_, last = out.splitlines()
    assert first == "job j: without master"
    assert second == "epoch 1 of 2, version 3, 192 of 1 280 records"
    assert POD in out
    expected = "Start the same command again to go on, or `elasticdl job clean j -n n` to end it."
    assert last == expected
    code, out, _ = tell("status", "j", "--json")
    facts = json.loads(out)
    assert (facts["status"], facts["records_done"], facts["master_alive"]) == ("running", 192, False)


def test_the_ledger_and_the_pods_of_a_job_without_master_are_shown(left, tell):
    (epoch,) = json.loads(tell("ledger", "j", "--json")[1])
    (source,) = epoch["sources"]
    assert sum(end - begin for begin, end in source["done"]) == 192
    (worker,) = json.loads(tell("pods", "j", "--json")[1])
    assert (worker["name"], worker["state"]) == (POD, "running")


def test_to_stop_a_job_without_master_is_to_go_on_or_to_clean(left, tell):
    code, out, err = tell("stop", "j")
    assert (code, out) == (1, "")
    assert "n/j: the job has no master" in err
    assert "the command that began it goes on with it; `elasticdl job clean j -n n` removes it" in err
    assert "jj" not in err


def test_a_master_that_was_lost_is_none_any_more(left, tell):
    master_of(left, lambda pod: ends(pod, 137))
    assert tell("status", "j")[1].startswith("job j: without master, its master is lost: killed by SIGKILL\n")
    assert "the job has no master: it is lost, killed by SIGKILL" in tell("stop", "j")[2]


def test_a_master_that_has_not_begun_leaves_the_figures_to_the_journal(left, tell):
    master_of(left)
    out = tell("status", "j")[1]
    assert out.startswith(
        "job j: pending, its master has not begun\nepoch 1 of 2, version 3, 192 of 1 280 rec"
    )
    code, _, err = tell("stop", "j")
    assert code == 1
    assert "the job's master has not begun (`elasticdl job clean j -n n` removes the job)" in err


def test_a_master_whose_container_is_not_made_waits_for_that(left, tell):
    master_of(left, is_on_a_node)
    expected = (
        f"job j: pending, its master waits: its container is not made yet (kubectl describe pod {MASTER}"
    )
    assert tell("status", "j")[1].startswith(expected)


def test_a_job_that_has_failed_tells_how_far_it_came_and_is_not_to_be_stopped(left, tell):
    master_of(left, lambda pod: ends(pod, 1))
    assert tell("status", "j")[1].startswith("job j: failed\nepoch 1 of 2, version 3, 192 of 1 280 records\n")
    said = "job j is not running (failed); `elasticdl job clean j -n n` removes what is left of it\n"
    assert tell("stop", "j") == (0, said, "")


def test_a_job_that_has_succeeded_is_said_to_have_though_its_journal_is_gone(left, tell):
    master_of(left, lambda pod: ends(pod, 0))
    left.delete_config_map("elasticdl-j")
    code, out, _ = tell("status", "j")
    assert code == 0
    assert out.startswith("job j: succeeded, its journal is gone, as after a success\n")
    assert MASTER in out
    assert "records" not in out
    assert "records_done" not in json.loads(tell("status", "j", "--json")[1])
    code, _, err = tell("ledger", "j")
    assert (code, err) == (
        1,
        "error: j: there is no ledger to look at (its journal is gone, as after a success)\n",
    )


def test_a_journal_on_a_volume_is_not_taken_for_none(left, tell):
    left.patch_config_map("elasticdl-j", {"data": {"journal.volume": "claim c: run"}})
    out = tell("status", "j")[1]
    assert out.startswith("job j: without master, its journal is on a volume, claim c: run, where")
    assert "records" not in out


def test_a_master_that_is_a_pipelines_step_is_not_called_none(left, tell):
    step = plan().master_pod(("python",))
    step.metadata.name = "a-step"
    runs(left.create_pod(step))
    assert tell("status", "j")[1].startswith("job j: running in the pod a-step\nepoch 1 of 2, version 3")
    code, _, err = tell("stop", "j")
    assert code == 1
    assert "the job's master is a step of a pipeline, in the pod a-step" in err


@pytest.mark.parametrize("verb", ["status", "ledger", "stop", "clean"])
def test_a_name_that_no_job_has_is_refused_with_the_nearest_one(left, tell, verb):
    code, out, err = tell(verb, "jjj")
    assert (code, out) == (2, "")
    assert err == "error: n: unknown job 'jjj' (did you mean 'jj'?)\n"


def test_all_that_carries_the_jobs_name_is_cleaned_and_nothing_else(left, tell):
    assert tell("clean", "j") == (0, "nothing is left of job j in namespace n\n", "")
    assert list(left.pods) == ["elasticdl-jj-master"]
    assert left.others == {}
