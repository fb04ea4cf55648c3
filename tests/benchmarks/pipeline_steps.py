"""What a step costs on Argo beyond its own work, and a training as a step against `elasticdl train`.

On a real Kubernetes of three nodes, with Argo's own controller. A step's cost is by how much a workflow of
five steps, one after the other, lasts longer than one of a single step, a fourth of that, less what the
step's own command takes in a container of the same image: ten rows to convert, a job to clean up that never
was. The other side is the same of containers of the same image that run `true`. The training
is the tutorial's CNN on two workers and a parameter server, with the same options as a workflow of one step
and as the command, each from its submission to its end. Sides take turns, each first as often as the other,
and count by their medians.
"""

from __future__ import annotations

import functools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from elastic_runtime.data.mnist import convert_mnist, sample
from tests.benchmarks.priorities import pull_everywhere
from tests.benchmarks.rows import Row
from tests.cluster.argo_steps import FOLDER, StepRun
from tests.cluster.kit import builder, kit, objects, s3
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.site import free_site

ROOT = Path(__file__).parents[2]
STEPS, CHAINS = 4, 4  # beyond the first; of either side
OWN_TIMES = 5
TRAININGS, EPOCHS = 4, 10
SECONDS = 900
NOTHING: Mapping[str, tuple[str, dict[str, object]]] = {
    "clean_up, with nothing to clean up": ("clean-up", {"job_name": "never-was"}),
    "convert, with ten rows to convert": ("convert", {"source": f"{FOLDER}/rows.csv"}),
}
OUTPUTS = {"clean-up": ("result",), "convert": ("dataset", "samples")}
TIMED = """began=$(date +%s%N)
for n in $(seq {times}); do python -m elastic_runtime.steps {words} >/dev/null 2>&1 || exit 1; done
echo $(( ($(date +%s%N) - began) / 1000000 ))
"""
TRAINING: Mapping[str, object] = {
    "image_pull_policy": "IfNotPresent",
    "model_zoo": f"{FOLDER}/model_zoo",
    "model_def": "mnist.mnist_functional_api.custom_model",
    "training_data": f"{FOLDER}/mnist/train",
    "minibatch_size": 64,
    "num_minibatches_per_task": 8,
    "num_epochs": EPOCHS,
    "num_workers": 2,
}

Side = Callable[[str], float]
"""Does it under this name, and tells how long it took."""


def run() -> list[Row]:
    """A row for each step, and one for the training."""
    image = builder.build("tensorflow")
    with free_site() as site, TemporaryDirectory() as folder:
        try:
            cluster = kit.up(site, nodes=3)
            pull_everywhere(cluster, image)
            return [*_rows(_Workflows(cluster, Path(folder), builder.push(cluster, "tensorflow")))]
        finally:
            kit.down(site)


def _rows(argo: _Workflows) -> Iterator[Row]:
    for what, chain in NOTHING.items():
        own = argo.own_time(*chain)
        ours, theirs = in_turns(CHAINS, functools.partial(argo.chain, *chain), argo.chain_of_nothing)
        name = f"a step on Argo: {what}, beyond its own {own:.1f} s, against a container that does nothing"
        yield Row(name, ours - own, theirs, "s", "<= 4 s", "lower")
    ours, theirs = in_turns(TRAININGS, argo.training_as_a_step, argo.training_by_the_command)
    name = "a training as a step on Argo, against `elasticdl train` on the same cluster"
    yield Row(name, ours, theirs, "s", "<= 1.05x", "lower")


def in_turns(turns: int, ours: Side, theirs: Side) -> tuple[float, float]:
    """The median of each side."""
    took: dict[Side, list[float]] = {ours: [], theirs: []}
    for turn in range(turns):
        for side in (ours, theirs) if turn % 2 == 0 else (theirs, ours):
            took[side].append(side(f"turn-{turn}"))
            print(f" {took[side][-1]:.1f}", end="", file=sys.stderr, flush=True)
    return statistics.median(took[ours]), statistics.median(took[theirs])


class _Workflows:
    """The two sides, each run in a namespace of its own that is ready for both."""

    def __init__(self, cluster: Cluster, folder: Path, image: str) -> None:
        self._cluster, self._folder, self._image = cluster, folder, image
        self._store = s3.started(cluster)
        self._number = 0

    def own_time(self, step: str, given: Mapping[str, object]) -> float:
        """What the step's command takes in a container, without any Argo."""
        run = self._run("own")
        _write_rows(run)
        words = [step.replace("-", "_"), *(f"--{key}={value}" for key, value in given.items())]
        words += [f"--{name}=/tmp/{name}" for name in OUTPUTS[step]]
        script = TIMED.format(times=OWN_TIMES, words=" ".join(words))
        volume = {"name": "job", "hostPath": {"path": str(run.folder)}}
        made = objects.pod(
            "own",
            self._image,
            "sh",
            "-c",
            script,
            serviceAccountName="elasticdl",
            volumes=[volume],
        )
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "job", "mountPath": FOLDER}]
        took = int(run.namespace.output(made)) / 1000 / OWN_TIMES
        run.namespace.delete()
        return took

    def chain(self, step: str, given: Mapping[str, object], name: str) -> float:
        """What one more step of ours costs, one after the other."""

        def lasts(steps: int) -> float:
            run = self._run(name)
            _write_rows(run)
            task = {**given, **run.common}
            run.spec["templates"] = [_in_a_row(steps, lambda number: run.task(f"s{number}", step, task))]
            return self._submitted(run)

        return (lasts(1 + STEPS) - lasts(1)) / STEPS

    def chain_of_nothing(self, name: str) -> float:
        """One more container that does nothing, likewise."""

        def lasts(steps: int) -> float:
            run = self._run(name)
            nothing = {"name": "nothing", "container": {"image": self._image, "command": ["true"]}}
            called = _in_a_row(steps, lambda number: {"name": f"s{number}", "template": "nothing"})
            run.spec["templates"] = [called, nothing]
            return self._submitted(run)

        return (lasts(1 + STEPS) - lasts(1)) / STEPS

    def training_as_a_step(self, name: str) -> float:
        """A workflow of it alone."""
        return self._submitted(self._training(name))

    def training_by_the_command(self, name: str) -> float:
        """From `elasticdl train` to its end."""
        run = self._training(name)
        own = ("envs", "step_resource_request")
        words = [f"--{each}={value}" for each, value in run.parameters.items() if each not in own]
        command = [sys.executable, "-m", "elastic_runtime", "train", f"--job_name={name}", *words]
        environment = {"KUBECONFIG": str(self._cluster.kubeconfig), "PATH": "/usr/bin:/bin"}
        command.append(f"--namespace={run.namespace.name}")
        began = time.monotonic()
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=SECONDS, check=False
        )
        took = time.monotonic() - began
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        run.namespace.delete()
        return took

    def _training(self, name: str) -> StepRun:
        run = self._run(name, **TRAINING)
        run.bring(ROOT / "model_zoo")
        convert_mnist(str(run.folder / "mnist"), sample())
        return run

    def _run(self, name: str, **parameters: object) -> StepRun:
        self._number += 1
        namespace = Namespace.create(self._cluster, f"bench-{self._number}")
        self._store.configure(namespace)
        for manifests in ("elasticdl-argo-rbac.yaml", "elasticdl-rbac.yaml", "argo"):
            namespace.kubectl("apply", "-f", ROOT / "manifests" / manifests)
        return StepRun(namespace, self._folder / namespace.name, self._image, name=name, **parameters)

    def _submitted(self, run: StepRun) -> float:
        """From here to the workflow's end."""
        began = time.monotonic()
        run.submit()
        run.namespace.wait("--for=condition=Completed", f"workflow/{run.name}", seconds=SECONDS)
        took = time.monotonic() - began
        assert run.phase() == "Succeeded", run.report()
        run.namespace.delete()
        return took


def _in_a_row(steps: int, task: Callable[[int], dict[str, object]]) -> dict[str, Any]:
    return {"name": "main", "steps": [[task(number)] for number in range(steps)]}


def _write_rows(run: StepRun) -> None:
    (run.folder / "rows.csv").write_text("a,b\n" + "1,2\n" * 10)


if __name__ == "__main__":
    for row in run():
        print(row, row.ratio)
