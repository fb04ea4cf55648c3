"""The step's log has the important lines of its pods in the cluster, each once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from kubernetes.client import V1Container, V1ObjectMeta, V1Pod, V1PodSpec

from elastic_runtime.observe.live_state import PodState
from elastic_runtime.platform.kubernetes.container import DEFAULT
from elastic_runtime.platform.kubernetes.errors import Away, Forbidden
from elastic_runtime.steps.cluster_pod_lines import MOST_PODS, ClusterPodLines

SECONDS = 60


def entry(level: str, words: str) -> str:
    return f"[2026-11-18 12:00:00,000] [{level}] [app.py:1:run] {words}"


class Logs:
    """The API as far as logs go: a pod's lines come until `end`."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self.problem: Exception | None = None
        self.asked: list[tuple[str, float]] = []
        self._changed, self._ended = threading.Condition(), False

    def write(self, pod: str, *lines: str) -> None:
        with self._changed:
            self.lines.setdefault(pod, []).extend(lines)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def get_pod(self, pod: str) -> V1Pod:
        containers = [V1Container(name="mesh"), V1Container(name="worker")]
        return V1Pod(
            metadata=V1ObjectMeta(name=pod, annotations={DEFAULT: "worker"}),
            spec=V1PodSpec(containers=containers),
        )

    def pod_log(self, pod: str, *, container: str, follow: bool, since: float) -> Iterator[str]:
        assert follow
        assert container == "worker"
        self.asked.append((pod, since))
        if self.problem is not None:
            raise self.problem
        place = 0
        while (new := self._more(pod, place)) and "broken" not in new:
            yield from new
            place += len(new)

    def _more(self, pod: str, place: int) -> list[str]:
        with self._changed:
            assert self._changed.wait_for(lambda: self.lines.get(pod, [])[place:] or self._ended, SECONDS)
            return self.lines.get(pod, [])[place:]


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def lines(logs: Logs) -> Iterator[ClusterPodLines]:
    made = ClusterPodLines(logs, "j")
    yield made
    made.close(pods_go_on=True)


def pod(name: str, state: str = "running") -> PodState:
    return PodState(name=f"elasticdl-j-{name}", role=name.partition("-")[0], state=state, words="")


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.01)


def seen(
    lines: ClusterPodLines, capsys: pytest.CaptureFixture[str], *pods: PodState, count: int
) -> list[str]:
    """What is said of these pods, once there are so many lines."""
    said: list[str] = []

    def enough() -> bool:
        lines.see(pods)
        said.extend(capsys.readouterr().err.splitlines())
        return len(said) >= count

    until(enough, f"{count} lines: {said}")
    return said


def test_the_lines_of_a_pod_that_runs_come_with_its_name_and_each_once(logs, lines, capsys) -> None:
    logs.write("elasticdl-j-worker-0", entry("INFO", "hello"), entry("ERROR", "broke"), "ValueError: y")
    logs.write("elasticdl-j-master", entry("ERROR", "said by this process already"))
    logs.write("elasticdl-j-worker-1", entry("ERROR", "of a pod that does not run"))
    pods = (pod("worker-0"), pod("master"), pod("worker-1", "pending"))
    assert seen(lines, capsys, *pods, count=2) == ["worker-0 | broke", "worker-0 | ValueError: y"]
    logs.write("elasticdl-j-worker-0", entry("INFO", "Loss = 0.5, steps = 100"))
    assert seen(lines, capsys, *pods, count=1) == ["worker-0 | Loss = 0.5, steps = 100"]
    assert [name for name, _ in logs.asked] == ["elasticdl-j-worker-0"]


def test_what_an_earlier_attempt_could_say_is_not_asked_for(logs) -> None:
    before = time.time()
    lines = ClusterPodLines(logs, "j")
    after = time.time()
    lines.see((pod("worker-0"),))
    until(lambda: logs.asked, "the log is asked for")
    lines.close(pods_go_on=True)
    assert before <= logs.asked[0][1] <= after


def test_a_log_whose_line_breaks_is_taken_up_where_it_broke(logs, lines, capsys) -> None:
    logs.write("elasticdl-j-ps-0", "broken")
    lines.see((pod("ps-0"),))
    until(lambda: len(logs.asked) == 1, "the log is asked for")
    logs.lines.clear()
    logs.write("elasticdl-j-ps-0", entry("WARNING", "after that"))
    assert seen(lines, capsys, pod("ps-0"), count=1) == ["ps-0 | after that"]
    (_, first), (_, second) = logs.asked
    assert second > first


def test_the_last_words_of_a_pod_are_said_at_the_end_and_nobody_reads_on(logs, lines, capsys) -> None:
    lines.see((pod("worker-0"),))
    until(lambda: logs.asked, "the log is asked for")
    logs.write("elasticdl-j-worker-0", entry("ERROR", "the last"))
    logs.close()
    lines.close(pods_go_on=False)
    assert capsys.readouterr().err == "worker-0 | the last\n"
    assert not [each for each in threading.enumerate() if "(_read)" in each.name]


def test_an_account_that_may_not_read_logs_is_told_so_once(logs, lines, caplog) -> None:
    logs.problem = Forbidden("may not get pods/log", where="Kubernetes")
    with caplog.at_level("INFO"):
        lines.see((pod("worker-0"),))
        until(lambda: not lines._may, "it is said")
        lines.see((pod("worker-0"), pod("worker-1")))
        lines.close(pods_go_on=True)
    assert len(caplog.records) == 1
    assert "may not get pods/log" in caplog.text
    assert len(logs.asked) == 1


def test_a_server_that_is_away_is_asked_again(logs, lines, capsys) -> None:
    logs.problem = Away("is away", where="Kubernetes")
    lines.see((pod("worker-0"),))
    until(lambda: logs.asked, "the log is asked for")
    logs.problem = None
    logs.write("elasticdl-j-worker-0", entry("ERROR", "broke"))
    assert seen(lines, capsys, pod("worker-0"), count=1) == ["worker-0 | broke"]


def test_of_very_many_pods_only_some_are_followed(logs, lines) -> None:
    lines.see([pod(f"worker-{number}") for number in range(MOST_PODS + 20)])
    until(lambda: len(logs.asked) >= MOST_PODS, "the logs are asked for")
    lines.close(pods_go_on=True)
    assert len(logs.asked) == MOST_PODS
