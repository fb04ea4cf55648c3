"""A job in the cluster as its user runs it: the real command, a namespace, a folder that all its pods see.

`ClusterJob` starts `elasticdl train --image_name=...`, tells by its log, its journal and the API how far it
is, and `assert_right_end` checks what has to be true of any job that ended, whatever befell it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes import client, config

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.journal import read_only, replay
from elastic_runtime.master.prepare import JOURNAL_FILE
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.config_map import rows_of
from elastic_runtime.platform.kubernetes.connection import Connection
from elastic_runtime.platform.kubernetes.labels import all_of, anchor_name
from tests.cluster.kit.namespace import Namespace
from tests.process.job.harness import ZOO, write_data

SECONDS = 480.0
LOOK = 0.1
RECORDS = 1200
RESOURCES = {"master": "cpu=50m,memory=256Mi", "ps": "cpu=50m,memory=512Mi", "worker": "cpu=100m,memory=1Gi"}
LIMIT = "cpu=2,memory=2Gi"
ON_A_VOLUME = "--run_dir=/job/run"
"""The option of a job whose journal is a file, and not in the ConfigMap."""

NOWHERE_AT_FIRST = """
import uuid


class Cluster:
    def __init__(self):
        self.pods = 0

    def with_pod(self, pod):
        self.pods += 1
        if self.pods == 1:
            pod.spec.node_name = f"nowhere-{uuid.uuid4().hex[:6]}"
        return pod

    def with_service(self, service):
        return service


cluster = Cluster()
"""
"""A cluster spec by which the first pod that is made is given to a node that there is not.

Each time to another one: the cluster deletes the pods of a node that it has looked for in vain for 40 s."""

SILENT_SECONDS = 20.0
"""How long to wait then. The nodes that there are have said something by then, however busy they are."""


def bound(resources: dict[str, str], limit: str = LIMIT) -> list[str]:
    """Requests small enough for a small cluster, and limits that are none."""
    requests = [f"--{role}_resource_request={request}" for role, request in resources.items()]
    return [*requests, *(f"--{role}_resource_limit={limit}" for role in resources)]


class ClusterJob:
    """One job; its data, model zoo and pace are in a folder of this machine, `/job` in its pods."""

    def __init__(
        self, namespace: Namespace, folder: Path, image: str, *options: str, name: str = "j"
    ) -> None:
        self.namespace, self.name, self.folder = namespace, name, folder
        folder.mkdir(parents=True, exist_ok=True)
        for place in (folder, *folder.parents[: len(folder.parents) - 1]):
            if place.stat().st_uid == os.getuid() and not place.stat().st_mode & 0o001:
                place.chmod(place.stat().st_mode | 0o011)  # pods are not root
        if not (folder / "data").exists():
            write_data(folder / "data")
            shutil.copytree(ZOO, folder / "zoo")
        self.output, self.run = folder / f"{name}.txt", folder / "run"
        if ON_A_VOLUME in options:
            self.run.mkdir()
            self.run.chmod(0o777)
        self.pace(0)
        envs = ["TINY_PACE=/job/pace"]
        if "--distribution_strategy=AllreduceStrategy" in options:
            envs.append("HOROVOD_CYCLE_TIME=5")  # ms: a look for work in each costs idle workers much
        self.command = [
            sys.executable,
            *("-m", "elastic_runtime", "train", f"--job_name={name}", f"--image_name={image}"),
            *(f"--namespace={namespace.name}", "--image_pull_policy=IfNotPresent"),
            *("--model_zoo=/job/zoo", "--model_def=tiny.custom_model", "--training_data=/job/data"),
            *(f"--volume=host_path={folder},mount_path=/job", f"--envs={','.join(envs)}"),
            *("--minibatch_size=16", "--num_minibatches_per_task=4", *bound(RESOURCES), *options),
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        """That of the user, whose kubeconfig is the cluster's."""
        return {**os.environ, "KUBECONFIG": str(self.namespace.cluster.kubeconfig)}

    def start(self, *more: str) -> ClusterJob:
        """Give the command (again)."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.command, *more],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment(),
            )
        return self

    def again(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Give the command once more, to hear what it says."""
        return self._run([*self.command, *more])

    def job(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`elasticdl job VERB`."""
        return self.again_with("job", verb, self.name, "-n", self.namespace.name, *arguments)

    def again_with(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`elasticdl WORDS`."""
        return self._run([sys.executable, "-m", "elastic_runtime", *words])

    def pace(self, seconds: float) -> None:
        """From now on a training record takes so long; 0: as fast as can be."""
        beside = self.folder / ".pace"
        beside.write_text(str(seconds) if seconds else "")
        beside.rename(self.folder / "pace")

    def pod(self, short: str) -> str:
        """The whole name of a pod."""
        return f"elasticdl-{self.name}-{short}"

    @functools.cached_property
    def api(self) -> Api:
        """The API as the administrator has it."""
        found = client.Configuration()
        kubeconfig = str(self.namespace.cluster.kubeconfig)
        config.load_kube_config(kubeconfig, client_configuration=found, persist_config=False)
        return Api(Connection(found, patience=60), self.namespace.name)

    def pods(self) -> dict[str, Any]:
        """The job's pods, by the end of their names."""
        found = self.api.list_pods(all_of(self.name)).items
        return {pod.metadata.name.removeprefix(self.pod("")): pod for pod in found}

    def node_of(self, pod: str) -> str:
        """The node that a pod is on."""
        return str(self.pods()[pod].spec.node_name)

    def left(self) -> list[str]:
        """Everything of the job that the API still knows."""
        lists = (self.api.list_pods, self.api.list_services, self.api.list_config_maps)
        found = [each for look in lists for each in look(all_of(self.name)).items]
        names = [f"{type(each).__name__.removeprefix('V1')}/{each.metadata.name}" for each in found]
        if secret := self.api.get_secret(anchor_name(self.name)):
            names.append(f"Secret/{secret.metadata.name}")
        return sorted(names)

    def accepted(self, pod: str = "") -> list[float]:
        """When the master accepted each shard that was finished (by this worker), as its journal tells.

        A snapshot takes the place of what came before it: then there is nothing until the next shard.
        """
        found = [record for record in self._journal() if record[:2] == ["training", "Finished"]]
        return [record[5] for record in found if not pod or record[2] == self.pod(pod)]

    def _journal(self) -> list[Any]:
        """What is in it since its snapshot, wherever it is kept."""
        if self.run.exists():
            with contextlib.suppress(ElasticError):  # it is being written
                return read_only(self.run / JOURNAL_FILE)[1]
        return self.in_the_config_map()

    def in_the_config_map(self) -> list[Any]:
        """What of the journal is there, since its snapshot."""
        anchor = self.api.get_config_map(anchor_name(self.name))
        return [] if anchor is None else [*replay(rows_of(anchor))[1]]

    def summary(self) -> dict[str, Any]:
        """What the present master has put on record, a second ago at most."""
        folder = "/job/run" if self.run.exists() else f"/elasticdl/runs/{self.name}"
        cat = ("cat", f"{folder}/summary.json")
        said = self.namespace.kubectl("exec", self.pod("master"), "--", *cat, check=False)
        with contextlib.suppress(ValueError):  # the line may be cut, and the master not be there
            return dict(json.loads(said))
        return {}

    def text(self) -> str:
        """All that the command printed, over all its starts."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def until(self, condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
        """Wait until the condition holds; the command must go on meanwhile."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            ended = self.process is not None and self.process.poll() is not None
            if ended and (found := condition()):  # it came last
                break
            assert not ended, f"ended before: {what}\n{self.report()}"
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{self.report()}"
            time.sleep(LOOK)
        return found

    def until_said(self, pattern: str, seconds: float = SECONDS, *, times: int = 1) -> str:
        """Wait until the command has printed this so often; the last of it."""

        def said() -> str:
            found = [match[0] for match in re.finditer(pattern, self.text())]
            return found[times - 1] if len(found) >= times else ""

        return str(self.until(said, f"{pattern!r} is said {times} times", seconds))

    def until_training(self, workers: int) -> None:
        """Wait until so many workers have joined, and something is done."""
        self.until_said(r"worker elasticdl-\S+ joined", times=workers)
        self.until(self.accepted, "a shard is done")

    def until_gone(self, seconds: float = SECONDS, *, but: tuple[str, ...] = ()) -> None:
        """Wait until nothing of the job is left."""
        deadline = time.monotonic() + seconds
        while left := [each for each in self.left() if each not in but]:
            assert time.monotonic() < deadline, f"left after {seconds:g} s: {left}\n{self.report()}"
            time.sleep(LOOK)

    def ends(self, seconds: float = SECONDS) -> int:
        """Wait for the end of the command; its exit code."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {seconds:g} s\n{self.report()}") from None

    def assert_right_end(self, *, epochs: int = 1, seconds: float = SECONDS) -> str:
        """It succeeded, each record is done once an epoch, only the master's pod is left; the verdict.

        Of a master that was lost, the last words may not have come through; but nothing is said twice.
        """
        code = self.ends(seconds)
        assert code == 0, f"exit code {code}\n{self.report()}"
        lines = [line for line in self.text().splitlines() if line.startswith("[")]
        assert len(lines) == len(set(lines)), self.report()
        finished = dict(re.findall(r"epoch (\d+) of \d+ done: (\d+) records", self.text()))
        expected = {str(n + 1): str(RECORDS) for n in range(epochs)}
        masters = self.text().count("another one goes on")
        assert finished.items() <= expected.items() if masters else finished == expected, self.report()
        records = f"{epochs * RECORDS:,}".replace(",", " ")
        verdict = re.search(rf"job {self.name} succeeded: {records} records in {epochs} epoch.*", self.text())
        assert verdict, self.report()
        self.until_gone(but=(f"Pod/{self.pod('master')}",))
        return verdict[0]

    def report(self) -> str:
        """What is known when something is wrong."""
        pods = self.namespace.kubectl("get", "pods", "-o", "wide", check=False)
        lines = self.text().splitlines()[-60:]
        logs = [
            f"--- {name}\n{self.namespace.kubectl('logs', '--tail=15', self.pod(name), check=False)}"
            for name in self.pods()
            if name != "master"
        ]
        return "\n".join([*lines, pods, *logs])

    def abandon(self) -> None:
        """End the command with -9: nobody follows the job any more."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """The test is over; its namespace goes."""
        self.abandon()
        self.api.close()

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, env=self.environment()
        )
