"""`elasticdl job` in a cluster: what it makes of connections that break, and of a master that says no."""

from __future__ import annotations

import pytest

from elastic_runtime.cli import cluster_jobs
from elastic_runtime.cli.main import main
from elastic_runtime.platform.kubernetes import log
from elastic_runtime.platform.kubernetes.errors import CutOff, Forbidden, NotThere
from tests.unit.platform.kubernetes.plans import child, plan
from tests.unit.platform.kubernetes.small_api import Lines, SmallApi, ends, runs

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
