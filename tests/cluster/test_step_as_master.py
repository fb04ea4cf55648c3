"""A training step in a pod that an engine has made: it is its job's master, and so is the next attempt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import RIGHTS
from tests.cluster.jobs import RECORDS, RESOURCES, SECONDS, ClusterJob, bound
from tests.cluster.kit.namespace import Namespace

PACE = 0.1  # a record: two minutes for both workers, in which the step is killed and run again
MORE_RIGHTS = RIGHTS.with_name("elasticdl-steps-rbac.yaml")
KILL = """
import os, signal
for pid in filter(str.isdigit, os.listdir("/proc")):
    words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")
    if b"elastic_runtime.steps" in words and b"-m" in words and int(pid) > 1:
        os.kill(int(pid), signal.SIGKILL)
"""


class StepPod(ClusterJob):
    """A job whose master is a pipeline's step; `attempt` makes a pod for it, as an engine would."""

    def __init__(self, namespace: Namespace, folder: Path, image: str, **env: str) -> None:
        super().__init__(namespace, folder, image, name="s")
        self.image, self.attempts = image, 0
        self.env = [{"name": name, "value": value} for name, value in env.items()]

    def attempt(self, step: str = "train", *options: str) -> str:
        """Run the step (again), in a pod of another name."""
        self.attempts += 1
        name = f"engine-{step.replace('_', '-')}-{self.attempts}"
        words = ["python", "-m", "elastic_runtime.steps", step, *options]
        mounts = [{"name": "own", "mountPath": "/elasticdl"}, {"name": "job", "mountPath": "/job"}]
        container = {
            "name": "main",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", '"$@"; exit $?', "sh", *words],  # a step is not the first process
            "env": self.env,
            "volumeMounts": mounts,
            "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
        }
        spec = {
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [
                {"name": "own", "emptyDir": {}},
                {"name": "job", "hostPath": {"path": str(self.folder)}},
            ],
        }
        self.namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        return name

    def train(self, data: str = "/job/data") -> str:
        outputs = [f"--{name}=/job/out/{name}" for name in ("model", "metrics", "report", "pods")]
        return self.attempt(
            "train",
            "--job_name=s",
            *outputs,
            *(f"--image_name={self.image}", "--image_pull_policy=IfNotPresent"),
            *(f"--volume=host_path={self.folder},mount_path=/job", "--envs=TINY_PACE=/job/pace"),
            *("--model_zoo=/job/zoo", "--model_def=tiny.custom_model", f"--training_data={data}"),
            *("--minibatch_size=16", "--num_minibatches_per_task=4", "--num_epochs=2"),
            *(word for word in bound(RESOURCES) if not word.startswith("--master")),
        )

    def log(self, pod: str) -> str:
        return self.namespace.log(pod)

    def until_pod(self, pod: str, condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
        """Wait for it, while that pod has not ended."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            phase = self.namespace.status(pod)["phase"]
            assert phase in ("Pending", "Running"), f"{phase} before: {what}\n{self.log(pod)}"
            assert time.monotonic() < deadline, f"not in time: {what}\n{self.log(pod)}\n{self.report()}"
            time.sleep(0.5)
        return found

    def exit_code(self, pod: str, seconds: float = SECONDS) -> int:
        """Of the pod's container, once it has ended."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.namespace.status(pod).get("containerStatuses", [{"state": {}}])[0]["state"]
            if "terminated" in state:
                return int(state["terminated"]["exitCode"])
            assert time.monotonic() < deadline, f"not ended in time\n{self.log(pod)}\n{self.report()}"
            time.sleep(0.5)


@pytest.fixture
def step(namespace: Namespace, job_image: str, tmp_path: Path) -> Iterator[StepPod]:
    for rights in (RIGHTS, MORE_RIGHTS):
        namespace.kubectl("apply", "-f", rights)
    made = StepPod(namespace, tmp_path / "job", job_image)
    (made.folder / "out").mkdir(mode=0o777)
    for place in (made.folder, made.folder / "out"):
        place.chmod(0o777)
    yield made
    made.close()


@pytest.mark.timeout(1200)
def test_a_step_killed_and_run_again_goes_on_with_its_job_and_its_pods(step: StepPod) -> None:
    step.pace(PACE)
    first = step.train()
    step.until_pod(first, lambda: "joined" in step.log(first) and step.accepted(), "shards are done")
    before = {name: pod.metadata.uid for name, pod in step.pods().items() if "worker" in name or "ps" in name}
    step.namespace.kubectl("exec", first, "--", "python", "-c", KILL, check=False)
    assert step.exit_code(first) == 137

    second = step.train()
    step.until_pod(
        second, lambda: "goes on where it was left" in step.log(second), "the next attempt goes on"
    )
    step.until_pod(second, lambda: "is running already" in step.log(second), "the pods are adopted")
    after = {name: pod.metadata.uid for name, pod in step.pods().items()}
    assert before.items() <= after.items(), "workers and parameter servers were started again"
    step.pace(0)
    assert step.exit_code(second) == 0, step.log(second)
    metrics = json.loads((step.folder / "out" / "metrics").read_text())
    assert metrics["records"] == 2 * RECORDS
    assert (step.folder / "out" / "model" / "model.keras").is_file()
    steps = (f"Pod/{first}", f"Pod/{second}")
    step.until_gone(but=steps)
    assert sorted(step.left()) == [*steps]


@pytest.mark.timeout(1200)
def test_a_step_that_could_not_deliver_the_model_does_so_when_it_is_run_again_and_trains_nothing(
    step: StepPod,
) -> None:
    in_the_way = step.folder / "out" / "model"
    in_the_way.write_text("")
    first = step.train()
    assert step.exit_code(first) == 1, step.log(first)
    assert "the job is not trained again" in step.log(first)
    in_the_way.unlink()
    second = step.train()
    assert step.exit_code(second) == 0, step.log(second)
    assert "has succeeded already" in step.log(second)
    assert "joined" not in step.log(second)
    assert (in_the_way / "model.keras").is_file()
    assert json.loads((step.folder / "out" / "metrics").read_text())["records"] == 2 * RECORDS
    step.until_gone(but=(f"Pod/{first}", f"Pod/{second}"))


@pytest.mark.timeout(1200)
def test_a_step_with_other_work_does_not_take_up_what_was_left_until_that_is_cleaned_up(
    step: StepPod,
) -> None:
    step.pace(PACE)
    first = step.train()
    step.until_pod(first, lambda: "joined" in step.log(first) and step.accepted(), "shards are done")
    step.namespace.kubectl("exec", first, "--", "python", "-c", KILL, check=False)
    assert step.exit_code(first) == 137
    (step.folder / "next").mkdir()
    for file in (step.folder / "data").iterdir():
        (step.folder / "next" / file.name).write_bytes(file.read_bytes())
    refused = step.train("/job/next")
    assert step.exit_code(refused) == 2, step.log(refused)
    assert "--training_data=/job/data became /job/next" in step.log(refused)
    handler = step.attempt("clean_up", "--job_name=s")
    assert step.exit_code(handler) == 0, step.log(handler)
    step.pace(0)
    last = step.train("/job/next")
    assert step.exit_code(last) == 0, step.log(last)


@pytest.mark.timeout(1200)
def test_what_a_step_that_vanished_has_left_is_cleaned_up(step: StepPod) -> None:
    step.pace(PACE)
    first = step.train()
    step.until_pod(first, lambda: "joined" in step.log(first) and step.accepted(), "shards are done")
    step.namespace.kubectl("exec", first, "--", "python", "-c", KILL, check=False)
    assert step.exit_code(first) == 137
    handler = step.attempt("clean_up", "--job_name=s")
    assert step.exit_code(handler) == 0, step.log(handler)
    assert "3 pods ended" in step.log(handler)
    step.until_gone(but=(f"Pod/{first}",))
