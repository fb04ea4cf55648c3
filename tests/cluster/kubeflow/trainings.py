"""Trainings on Kubeflow Pipelines whose workers are pods of the cluster, as the user of KFP's page runs them.

A `TrainingPipeline` is what the user has written; each `TrainingRun` of it is told by its id, which is the
job's name, too. All pods of all of them see one folder of this machine as `/job`, by a claim that is mounted
on the task.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfp import Client, compiler, dsl, kubernetes
from kfp_server_api import ApiException
from urllib3.exceptions import HTTPError

from components import clean_up, train
from elastic_runtime.steps.job_name import job_name
from tests.cluster.jobs import LIMIT, RESOURCES
from tests.cluster.kit import kfp
from tests.cluster.kubeflow import graph, runs

RECORDS = 1200
PACE = 1.2
"""A record that is held: an epoch takes 24 minutes, however busy the machine is meanwhile."""
SECONDS = runs.SECONDS
LAST_WORDS = r"^Killed$|failed to execute component: exit status 137"
"""What is left to say where a step was killed, of the shell or the launcher around it."""
GONE_SECONDS = 120
"""Within which nothing of a job shall be left."""
LOOK = runs.LOOK
FOLDER = "/job"
KINDS = "pods,services,configmaps,secrets,persistentvolumeclaims"
STEP = b"kfp.dsl.executor_main"
TRAIN, EXIT_HANDLER = "train", "exit-handler-1"
"""What the compiler calls the tasks of a `TrainingPipeline`."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where trainings run, what image they run in, and the folder and the claim that they share."""

    pipelines: kfp.Kfp
    client: Client
    image: str
    folder: Path
    claim: str

    def pipeline(self, name: str, **given: Any) -> TrainingPipeline:
        """What a user has written; see `TrainingPipeline`."""
        return TrainingPipeline(self, name, **given)

    def start(
        self,
        pipelines: Mapping[runs.Name, TrainingPipeline],
        experiments: Mapping[runs.Name, str] | None = None,
    ) -> dict[runs.Name, TrainingRun]:
        """A run of each of these, as "Create run" makes them, one right after the other."""
        into: Mapping[runs.Name, str] = experiments or {}
        starts = {name: each.creation(into.get(name)) for name, each in pipelines.items()}
        made = runs.all_started(self.pipelines, self.client, starts)
        return {name: self.run(made[name], job=each.job) for name, each in pipelines.items()}

    def seen(self, place: str) -> Path:
        """Where on this machine is what pods see there."""
        return self.folder / Path(place).relative_to(FOLDER)

    def run(self, run_id: str, *, job: str = "") -> TrainingRun:
        """One that is there; its job has the run's id for a name, unless another is given."""
        return TrainingRun(self, run_id, job or job_name(run_id))


class TrainingPipeline:
    """A pipeline with one training, and at its end the clean-up if it is `tidy`."""

    def __init__(
        self,
        place: Workplace,
        name: str,
        *,
        tidy: bool = True,
        retries: int = 0,
        memory: str = "",
        job: str = "",
        **options: object,
    ) -> None:
        self.place, self.name, self.job = place, name, job
        self.folder = place.folder / name
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.pace(0)
        self.options: dict[str, Any] = {
            "image_name": place.image,
            "image_pull_policy": "IfNotPresent",
            "volume": f"claim_name={place.claim},mount_path={FOLDER}",
            "model_zoo": f"{FOLDER}/zoo",
            "model_def": "tiny.custom_model",
            "training_data": f"{FOLDER}/data",
            "envs": f"TINY_PACE={FOLDER}/{name}/pace",
            "minibatch_size": 8,  # at PACE the first is done in seconds
            "num_minibatches_per_task": 1,
            "num_workers": 1,
            **{f"{role}_resource_request": RESOURCES[role] for role in ("worker", "ps")},
            **{f"{role}_resource_limit": LIMIT for role in ("worker", "ps")},
            **options,
        }

        called = job or dsl.PIPELINE_JOB_ID_PLACEHOLDER

        def training() -> None:
            task = train(job_name=called, **self.options)
            task.set_cpu_request("50m").set_memory_request("256Mi")
            if memory:
                task.set_memory_limit(memory)
            if retries:
                task.set_retry(retries)
            kubernetes.mount_pvc(task, pvc_name=place.claim, mount_path=FOLDER)

        def pipeline():
            if tidy:
                with dsl.ExitHandler(clean_up(job_name=called)):
                    training()
            else:
                training()

        pipeline.__name__ = name
        self.package = self.folder / "pipeline.yaml"
        compiler.Compiler().compile(dsl.pipeline(name=name)(pipeline), str(self.package))

    def pace(self, seconds: float) -> None:
        """From now on a training record takes so long; 0: as fast as can be."""
        beside = self.folder / ".pace"
        beside.write_text(str(seconds) if seconds else "")
        beside.rename(self.folder / "pace")

    def start(self) -> TrainingRun:
        """What "Create run" does; KFP has heard that the run goes on."""
        return self.place.start({self.name: self})[self.name]

    def start_at_once(self) -> TrainingRun:
        """The same, in its first second: KFP may still lose it, see `TrainingRun.is_lost`."""
        return self.place.run(str(self.creation()().run_id), job=self.job)

    def creation(self, experiment: str | None = None) -> Callable[[], Any]:
        """What makes a run of it, and returns what KFP says of that."""
        create, package = self.place.client.create_run_from_pipeline_package, str(self.package)
        return functools.partial(create, package, run_name=self.name, experiment_name=experiment)


class TrainingRun:
    """One run: what KFP shows of it, what its step says, and what the cluster has of its job."""

    def __init__(self, place: Workplace, run_id: str, job: str) -> None:
        self.place, self.run_id, self.job = place, run_id, job
        self._namespace = place.pipelines.namespace

    # What can be seen

    def state(self) -> str:
        """As the page has it."""
        return str(runs.told(self.place.client, self.run_id).state)

    def graph(self) -> str:
        """What the page's graph shows of the training, and of the group that has the exit handler if any."""
        states = functools.partial(graph.states, self.place.pipelines, self.run_id)
        found = {task: " ".join(states(task)) for task in (TRAIN, EXIT_HANDLER)}
        return ", ".join(f"`{task}` {shown}" for task, shown in found.items() if shown)

    def is_lost(self) -> bool:
        """Whether KFP has lost it, as it may in the first second: docs/known-issues.md."""
        return runs.is_lost(self.place.pipelines, self.run_id)

    def step_pods(self) -> list[Any]:
        """Of all attempts at the training, as long as they are there, the oldest first."""
        return step_pods(self.place.pipelines, self.run_id, TRAIN)

    def step_uids(self) -> set[str]:
        """Of those."""
        return {pod["metadata"]["uid"] for pod in self.step_pods()}

    def workflow(self) -> str:
        """What the run is called in the cluster."""
        return str(self.step_pods()[0]["metadata"]["labels"]["workflows.argoproj.io/workflow"])

    def pods(self) -> dict[str, Any]:
        """The job's own, by the end of their names."""
        mark = f"elasticdl-{self.job}-"
        found = self._namespace.get("pods", "-l", f"elasticdl_job_name={self.job}")["items"]
        named = {pod["metadata"]["name"]: pod for pod in found}
        return {name.removeprefix(mark): pod for name, pod in named.items() if name.startswith(mark)}

    def uids(self) -> dict[str, str]:
        """Of those."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def left(self) -> list[str]:
        """All objects of the job; a step's pod is the run's, which keeps it."""
        return left_of(self.place.pipelines, self.job)

    def living(self) -> list[str]:
        """The job's pods that have not ended."""
        ended = {"Succeeded", "Failed"}
        return [name for name, pod in self.pods().items() if pod["status"]["phase"] not in ended]

    def log(self, pod: str = "") -> str:
        """What a step's pod has written, or all of them, one after the other."""
        names = [pod] if pod else [each["metadata"]["name"] for each in self.step_pods()]
        return "\n".join(self._namespace.log(name, "main") for name in names)

    def reason(self) -> str:
        """Why the last attempt ended, as shell or launcher say at the end of its log, if they do."""
        tail = self.log(self.step_pods()[-1]["metadata"]["name"]).splitlines()[-10:]
        found = re.findall(r"^Killed$|failed to execute component: .*$", "\n".join(tail), re.MULTILINE)
        return str(found[-1]) if found else ""

    def ended_by(self) -> str:
        """What the cluster says of the end of the last attempt's container."""
        containers = self.step_pods()[-1]["status"]["containerStatuses"]
        [state] = [each["state"] for each in containers if each["name"] == "main"]
        return str(state["terminated"]["reason"])

    def is_over(self, uid: str) -> bool:
        """Whether the step's container in this pod has ended, or the pod is gone."""
        made = [each for each in self.step_pods() if each["metadata"]["uid"] == uid]
        containers = (each for pod in made for each in pod["status"].get("containerStatuses", []))
        return all("terminated" in each["state"] for each in containers if each["name"] == "main")

    def verdict(self) -> str:
        """The last line of the training itself."""
        return re.findall(r"job \S+ (?:succeeded|failed|stopped): .*", self.log())[-1]

    def figures(self) -> dict[str, float]:
        """The metrics that KFP shows of the training."""
        kept = [each for each in self.place.pipelines.artifacts() if f"/{self.run_id}/" in each.uri]
        [metrics] = [each for each in kept if each.kind == "system.Metrics"]
        return metrics.figures

    # What is waited for

    def until(self, condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
        """Wait until the condition holds; the run must go on meanwhile."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if self.ended():
                if found := condition():  # it came last
                    break
                raise AssertionError(f"ended before: {what}\n{self.report()}")
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{self.report()}"
            time.sleep(LOOK)
        return found

    def until_said(self, pattern: str, seconds: float = SECONDS) -> str:
        """Wait until the step has written this."""
        said = self.until(lambda: re.search(pattern, self.log(), re.DOTALL), f"{pattern!r} is said", seconds)
        return str(said[0])

    def until_training(self) -> None:
        """Wait until a record is done, and others are not."""
        self.until_said(r"epoch \d+ of \d+, [1-9][\d ]* of")
        self.assert_it_goes_on()

    def assert_it_goes_on(self) -> None:
        """What is done to a job that has ended shows nothing."""
        assert self.living(), f"the job has ended by itself\n{self.report()}"
        assert not self.ended(), f"the run has ended by itself\n{self.report()}"

    def until_again(self, but: set[str], pattern: str, seconds: float = SECONDS) -> None:
        """Wait until a pod of the step other than these, by their uids, has written that.

        Argo may give a pod that is lost with its node a successor of the same name.
        """

        def said() -> bool:
            new = (each["metadata"] for each in self.step_pods() if each["metadata"]["uid"] not in but)
            return any(re.search(pattern, self.log(each["name"]), re.DOTALL) for each in new)

        self.until(said, f"another attempt says {pattern!r}", seconds)

    def ends(self, seconds: float = SECONDS) -> str:
        """Wait for the run's end; its state."""
        return str(self.until(self.ended, "it ends", seconds))

    def ended(self) -> str:
        """The state in which it has ended; empty as long as it has not."""
        return runs.end(self.place.pipelines, self.place.client, self.run_id)

    def until_nothing_is_left(self, seconds: float) -> None:
        """Wait for that, whatever becomes of the run."""
        deadline = time.monotonic() + seconds
        while left := self.left():
            assert time.monotonic() < deadline, f"not gone after {seconds:g} s: {left}\n{self.report()}"
            time.sleep(LOOK)

    def until_no_pod_lives(self, seconds: float) -> None:
        """Wait until the last of the job's pods has ended."""
        deadline = time.monotonic() + seconds
        while living := self.living():
            assert time.monotonic() < deadline, f"alive after {seconds:g} s: {living}\n{self.report()}"
            time.sleep(LOOK)

    def assert_each_record_is_done_once(self, epochs: int = 1) -> None:
        """By the ledger, as the log tells of it and as KFP shows it."""
        records = f"{RECORDS * epochs:,}".replace(",", " ")
        verdict = rf"job {self.job} succeeded: {records} records in {epochs} epoch"
        assert re.search(verdict, self.log()), self.report()
        done = re.findall(r"epoch (\d+) of \d+ done: (\d+) records", self.log())
        assert len(done) == len({*done}), self.report()
        assert {*done} <= {(str(epoch + 1), str(RECORDS)) for epoch in range(epochs)}, self.report()
        assert self.figures()["records"] == RECORDS * epochs

    def report(self) -> str:
        """What is known when something is wrong."""
        described = [f"run {self.run_id}: {self._shown()}", f"left: {self.left()}"]
        described += [f"--- {name}\n{self._tail(f'elasticdl-{self.job}-{name}')}" for name in self.pods()]
        steps = [f"--- step\n{self._tail(pod['metadata']['name'], 'main')}" for pod in self.step_pods()]
        return "\n".join([*described, *steps, runs.pods(self.place.pipelines, self.run_id)])

    # What befalls it

    def terminate(self) -> None:
        """What "Terminate" does."""
        runs.terminate(self.place.pipelines, self.place.client, self.run_id)

    def retry(self) -> None:
        """What "Retry" does, when Argo and KFP have done with the run."""
        runs.retry(self.place.pipelines, self.place.client, self.run_id)

    def clone(self) -> TrainingRun:
        """What "Clone run" does: another one of what this one is made of."""
        client = self.place.client
        told = runs.told(client, self.run_id)
        again = type(told)(
            display_name=f"Clone of {told.display_name}",
            experiment_id=told.experiment_id,
            pipeline_spec=told.pipeline_spec,
            pipeline_version_reference=told.pipeline_version_reference,
            runtime_config=told.runtime_config,
        )
        create = functools.partial(client._run_api.run_service_create_run, again)
        return self.place.run(runs.started(self.place.pipelines, client, create))

    def delete(self) -> None:
        """What "Delete" does."""
        runs.delete(self.place.client, self.run_id)

    def kill_step(self) -> None:
        """kill -9 of the step's Python; the nodes' processes are this machine's."""
        marks = {f"KFP_POD_NAME={self.step_pods()[-1]['metadata']['name']}".encode()}
        killed = 0
        for number in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                process = Path("/proc", number)
                is_step = process.joinpath("cmdline").read_bytes().split(b"\0")[1:3] == [b"-m", STEP]
                if is_step and marks <= {*process.joinpath("environ").read_bytes().split(b"\0")}:
                    os.kill(int(number), signal.SIGKILL)
                    killed += 1
        assert killed, f"no process is the step's\n{self.report()}"

    def _tail(self, pod: str, container: str = "") -> str:
        return self._namespace.tail(pod, container, lines=25)

    def _shown(self) -> str:
        try:
            told = runs.told(self.place.client, self.run_id)
        except (ApiException, HTTPError) as problem:
            return str(problem)
        tasks = (told.run_details and told.run_details.task_details) or []
        return f"{told.state} {told.error or ''} {[(task.display_name, task.state) for task in tasks]}"


def step_pods(pipelines: kfp.Kfp, run_id: str, function: str) -> list[Any]:
    """The pods of a run that are attempts at the step which runs this function, the oldest first.

    KFP's own pods run none; the container's name is `main` in all.
    """
    found = pipelines.namespace.get("pods", "-l", f"pipeline/runid={run_id}")["items"]
    steps = (pod for pod in found if ("--function_to_execute", function) in itertools.pairwise(_words(pod)))
    return sorted(steps, key=lambda pod: pod["metadata"]["creationTimestamp"])


def left_of(pipelines: kfp.Kfp, job: str) -> list[str]:
    """All objects of a job; the pod of its step is the run's, which keeps it."""
    found = pipelines.namespace.get(KINDS, f"--selector=elasticdl_job_name={job}")["items"]
    return sorted(
        f"{each['kind']}/{each['metadata']['name']}"
        for each in found
        if each["metadata"]["name"].startswith("elasticdl-")
    )


def _words(pod: Any) -> list[str]:
    [main] = [each for each in pod["spec"]["containers"] if each["name"] == "main"]
    return [*main.get("command", []), *main.get("args", [])]


def recurring_runs(client: Client, recurring: str) -> list[str]:
    """The ids of all runs that a recurring run has started."""
    asked = {"predicates": [{"key": "recurring_run_id", "operation": "EQUALS", "string_value": recurring}]}
    ask = functools.partial(client.list_runs, page_size=50, filter=json.dumps(asked))
    found = runs.answered(ask).runs or []
    return [str(each.run_id) for each in found]
