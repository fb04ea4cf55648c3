"""A training step in an Argo workflow, as its author runs it: by `templateRef`, without any Python.

`StepRun` makes the workflow, tells by its status and its pods how far it is, and does to it what users, nodes
and kernels do.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cluster.jobs import LIMIT, RESOURCES
from tests.cluster.kit.asking import NotThereError
from tests.cluster.kit.namespace import Namespace
from tests.process.job.harness import ZOO, write_data

SECONDS = 480.0
LOOK = 0.2
FOLDER = "/job"
KINDS = "pods,services,configmaps,secrets"
MAIN = "train"


class StepRun:
    """One workflow of one training step and the exit handler; all its pods see `folder` as `/job`."""

    def __init__(
        self, namespace: Namespace, folder: Path, image: str, *, name: str = "w", **parameters: object
    ) -> None:
        self.namespace, self.folder, self.name = namespace, folder, name
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "data").exists():
            write_data(folder / "data")
            shutil.copytree(ZOO, folder / "zoo")
        for place in (folder, *folder.parents[: len(folder.parents) - 1]):
            if place.stat().st_uid == os.getuid() and not place.stat().st_mode & 0o001:
                place.chmod(place.stat().st_mode | 0o011)  # pods are not root
        folder.chmod(0o777)
        self.pace(0)
        self.common = {"image_name": image, "volume": f"host_path={folder},mount_path={FOLDER}"}
        self.parameters = {
            **self.common,
            "image_pull_policy": "IfNotPresent",
            "model_zoo": f"{FOLDER}/zoo",
            "model_def": "tiny.custom_model",
            "training_data": f"{FOLDER}/data",
            "envs": f"TINY_PACE={FOLDER}/pace",
            "minibatch_size": 16,
            "num_minibatches_per_task": 1,
            "num_workers": 2,
            "step_resource_request": RESOURCES["master"],
            **{f"{role}_resource_request": RESOURCES[role] for role in ("worker", "ps")},
            **{f"{role}_resource_limit": LIMIT for role in ("worker", "ps")},
            **parameters,
        }
        self.spec: dict[str, Any] = {
            "entrypoint": "main",
            "templates": [{"name": "main", "dag": {"tasks": [self.task(MAIN, "train", self.parameters)]}}],
        }

    def task(
        self, name: str, step: str, parameters: Mapping[str, object], **more: object
    ) -> dict[str, object]:
        """A task of the workflow; artifacts are named by where they come from."""
        given = [{"name": key, "value": str(value)} for key, value in parameters.items()]
        artifacts = more.pop("artifacts", {})
        brought = [{"name": key, "from": f"{{{{{place}}}}}"} for key, place in dict(artifacts).items()]
        template = {"name": f"elasticdl-{step}", "template": step}
        return {
            "name": name,
            "templateRef": template,
            "arguments": {"parameters": given, "artifacts": brought},
            **more,
        }

    def cleaned_up(self) -> StepRun:
        """With the exit handler."""
        handler = self.task("exit", "clean-up", self.common)
        del handler["name"]
        self.spec["hooks"] = {"exit": handler}
        return self

    def bring(self, folder: Path) -> None:
        """Put a folder where all pods see it."""
        shutil.copytree(folder, self.folder / folder.name, ignore=shutil.ignore_patterns("__pycache__"))

    def submit(self) -> StepRun:
        """Make the workflow."""
        kind = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
        self.namespace.apply({**kind, "metadata": {"name": self.name}, "spec": self.spec})
        return self

    def pace(self, seconds: float) -> None:
        """From now on a training record takes so long; 0: as fast as can be."""
        beside = self.folder / ".pace"
        beside.write_text(str(seconds) if seconds else "")
        beside.rename(self.folder / "pace")

    # What can be seen

    def workflow(self) -> Any:
        """As the API has it."""
        try:
            return self.namespace.get("workflow", self.name)
        except NotThereError:
            return {}

    def phase(self) -> str:
        """How the workflow ended; empty as long as it has not."""
        found = str(self.workflow().get("status", {}).get("phase", ""))
        return "" if found in {"", "Pending", "Running"} else found

    def nodes(self, task: str) -> list[Any]:
        """The attempts at a task, in order."""
        found = self.workflow().get("status", {}).get("nodes", {}).values()
        attempts = [n for n in found if n["type"] == "Pod" and n["displayName"].startswith(f"{task}(")]
        return sorted(attempts, key=lambda node: node["displayName"])

    def step_pod(self) -> str:
        """The name of the pod of the last attempt."""
        return str(max(self._step_pods(), key=lambda metadata: metadata["creationTimestamp"])["name"])

    def step_uids(self) -> set[str]:
        """Of the pods of all attempts that are still there."""
        return {metadata["uid"] for metadata in self._step_pods()}

    def _step_pods(self) -> list[Any]:
        made = self.namespace.get("pods", "-l", f"workflows.argoproj.io/workflow={self.name}")["items"]
        return [pod["metadata"] for pod in made if not pod["metadata"]["name"].startswith("elasticdl-")]

    def pods(self) -> dict[str, Any]:
        """The job's own pods, by the end of their names."""
        found = self.namespace.get("pods", "-l", f"elasticdl_job_name={self.name}")["items"]
        mark = f"elasticdl-{self.name}-"
        named = {pod["metadata"]["name"]: pod for pod in found}
        return {name.removeprefix(mark): pod for name, pod in named.items() if name.startswith(mark)}

    def left(self) -> list[str]:
        """All objects of its jobs, whose names begin with its own.

        A step's pod is Argo's, and stays as long as Argo wants.
        """
        found = self.namespace.get(KINDS, "-l", "elasticdl_job_name")["items"]
        names = [f"{each['kind']}/{each['metadata']['name']}" for each in found]
        return sorted(name for name in names if f"/elasticdl-{self.name}-" in f"{name}-")

    def pod_of(self, node: Any) -> str:
        """The name of the pod that an attempt was."""
        return f"{self.name}-{node['templateRef']['template']}-{node['id'].rpartition('-')[2]}"

    def log(self) -> str:
        """What the step's attempts have written, one after the other, as far as their pods are there."""
        return "\n".join(self._log_of(self.pod_of(node)) for node in self.nodes(MAIN))

    def _log_of(self, pod: str) -> str:
        return self.namespace.log(pod, "main")

    def until(self, condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
        """Wait until the condition holds; the workflow must go on meanwhile."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert not self.phase() or condition(), f"ended before: {what}\n{self.report()}"
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{self.report()}"
            time.sleep(LOOK)
        return found

    def until_said(self, pattern: str, seconds: float = SECONDS, *, times: int = 1) -> str:
        """Wait until the step has written this so often; the last of it."""

        def said() -> str:
            found = [match[0] for match in re.finditer(pattern, self.log())]
            return found[times - 1] if len(found) >= times else ""

        return str(self.until(said, f"{pattern!r} is said {times} times", seconds))

    def until_told(self, words: str) -> float:
        """Wait until the step's log has these words; when they were written."""
        line = self.until_said(rf"\[[^\]]*\] .*{words}")
        return datetime.strptime(f"{line[1:24]}+0000", "%Y-%m-%d %H:%M:%S,%f%z").timestamp()

    def until_made(self, pod: str) -> float:
        """Wait until the job has asked for this pod; when that was."""
        made = self.until(lambda: self.pods().get(pod), f"{pod} is asked for")
        return datetime.fromisoformat(made["metadata"]["creationTimestamp"]).timestamp()

    def until_again(self, but: set[str], pattern: str, seconds: float = SECONDS) -> None:
        """Wait until a pod of the step other than these, by their `uid`s, has written that.

        Those before may be gone with what they said, and Argo may count two of them as one attempt.
        """

        def said() -> bool:
            new = [metadata["name"] for metadata in self._step_pods() if metadata["uid"] not in but]
            return any(re.search(pattern, self._log_of(name), re.DOTALL) for name in new)

        self.until(said, f"another attempt says {pattern!r}", seconds)

    def until_training(self, workers: int = 2) -> None:
        """Wait until so many workers are at it."""
        self.until_said(r"worker elasticdl-\S+ joined", times=workers)
        self.until_said(r"epoch \d+ of \d+, [1-9][\d ]* of")

    def records(self) -> int:
        """How far the training is, by Argo's progress."""
        done = [node.get("progress", "0/1").split("/") for node in self.nodes(MAIN)]
        return max((int(now) for now, of in done if int(of) > 1), default=0)

    def ends(self, seconds: float = SECONDS) -> str:
        """Wait for the workflow's end; its phase."""
        return str(self.until(self.phase, "the workflow ends", seconds))

    def until_nothing_is_left(self, seconds: float) -> None:
        """Wait for that."""
        deadline = time.monotonic() + seconds
        while self.left():
            assert time.monotonic() < deadline, f"not gone after {seconds:g} s\n{self.report()}"
            time.sleep(LOOK)

    def report(self) -> str:
        """What is known when something is wrong."""
        pods = self.namespace.kubectl("get", "pods", "-o", "wide", check=False)
        nodes = self.workflow().get("status", {}).get("nodes", {}).values()
        said = [f"{n['displayName']}: {n.get('phase')} {n.get('message', '')}" for n in nodes]
        logs = [self.namespace.tail(self.pod_of(node), "main", lines=60) for node in self.nodes(MAIN)]
        return "\n".join([pods, *said, *logs, f"left: {self.left()}"])

    # What befalls it

    def kill_step(self) -> None:
        """kill -9 of the step's process; the nodes' processes are this machine's."""
        mark = f"ARGO_POD_NAME={self.step_pod()}".encode()
        for number in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                process = Path("/proc", number)
                is_step = (
                    b"elastic_runtime.steps" in process.joinpath("cmdline").read_bytes().split(b"\0")[:4]
                )
                if is_step and mark in process.joinpath("environ").read_bytes().split(b"\0"):
                    os.kill(int(number), signal.SIGKILL)

    def delete_step(self, grace: int = 30) -> None:
        """Its pod is deleted, with so many seconds to say goodbye."""
        self.namespace.kubectl("delete", "pod", self.step_pod(), f"--grace-period={grace}", "--wait=false")

    def shut_down(self, how: str) -> None:
        """What `argo stop` ("Stop") and `argo terminate` ("Terminate") do."""
        self._change(shutdown=how)

    def end_after(self, seconds: int) -> None:
        """The workflow may last so long and no longer; 0 is how KFP terminates a run."""
        self._change(activeDeadlineSeconds=seconds)

    def _change(self, **fields: object) -> None:
        patch = json.dumps({"spec": fields})
        self.namespace.kubectl("patch", "workflow", self.name, "--type=merge", "-p", patch)

    def delete(self) -> None:
        """What `kubectl delete workflow` does."""
        self.namespace.kubectl("delete", "workflow", self.name, "--wait=false")
