"""What a step costs on Kubeflow Pipelines, which runs a pod of its own, the driver, before that of each step.

On a real Kubernetes of two nodes with KFP's own server. A step's cost is by how much a run of five steps,
one after the other, lasts longer than one of a single step, a fourth of that. Ours is `clean_up` for a job
that never was, less what its command takes in a container; the other side is a plain component that adds one.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

from kfp import Client, dsl

from components import clean_up
from tests.benchmarks.bare.kubeflow_chain import chain
from tests.benchmarks.rows import Row
from tests.cluster.kit import kfp, kfp_images, kit, objects
from tests.cluster.kit.site import free_site
from tests.cluster.kubeflow.ended import connected

STEPS, TURNS, OWN_TIMES = 4, 3, 5
SECONDS = 900
TIMED = f"""began=$(date +%s%N)
for n in $(seq {OWN_TIMES}); do
  python -m elastic_runtime.steps clean_up --job_name=never-was >/dev/null 2>&1 || exit 1
done
echo $(( ($(date +%s%N) - began) / 1000000 ))
"""


def run() -> list[Row]:
    """One row."""
    with free_site() as site:
        try:
            return list(_rows(kfp.started(kit.up(site, nodes=2))))
        finally:
            kit.down(site)


def _rows(pipelines: kfp.Kfp) -> Iterator[Row]:
    plain, image = kfp_images.python(pipelines.cluster), kfp_images.elasticdl(pipelines.cluster)
    timed = objects.pod("own", image, "sh", "-c", TIMED, serviceAccountName="pipeline-runner")
    own = int(pipelines.namespace.output(timed)) / 1000 / OWN_TIMES
    chains = {True: _ours, False: lambda steps: chain(steps, plain)}
    took: dict[bool, list[float]] = {True: [], False: []}
    with connected(pipelines) as client:
        for side in (False, True, True, False) * ((TURNS + 1) // 2):
            lasted = [_lasts(client, chains[side](steps)) for steps in (1, 1 + STEPS)]
            took[side].append((lasted[1] - lasted[0]) / STEPS)
    ours, theirs = (statistics.median(took[side]) for side in (True, False))
    name = f"a step on Kubeflow Pipelines: clean_up, beyond its own {own:.1f} s, against a plain component"
    yield Row(name, ours - own, theirs, "s", "", "lower")


def _ours(steps: int) -> Any:
    @dsl.pipeline(name=f"clean-up-{steps}")
    def pipeline():
        before = None
        for _ in range(steps):
            task = clean_up(job_name="never-was").set_caching_options(enable_caching=False)
            before = task.after(before) if before else task

    return pipeline


def _lasts(client: Client, pipeline: Callable[..., Any]) -> float:
    made = client.create_run_from_pipeline_func(pipeline, enable_caching=False)
    ended = client.wait_for_run_completion(made.run_id, timeout=SECONDS, sleep_duration=1)
    assert ended.state == "SUCCEEDED", ended
    return float((ended.finished_at - ended.created_at).total_seconds())


if __name__ == "__main__":
    for row in run():
        print(row, row.ratio)
