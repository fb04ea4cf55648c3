"""What comes of what users do on KFP's page, and of faults, as the tests see it: `docs/kubeflow_actions.md`.

Each test notes what it has done and what came of it. The page is written only if that is asked for; what was
not done this time stays on it as it was.
"""

from __future__ import annotations

import os
import platform
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.cluster.kit.binaries import SOURCES
from tests.cluster.kit.kfp_programs import RELEASE
from tests.cluster.kubeflow.trainings import GONE_SECONDS, TrainingRun

PAGE = """\
# What users do on Kubeflow Pipelines, and what comes of it

Written by the tests that do it to [KFP {release}](cluster.md#kubeflow-pipelines) on Argo {argo}, with KFP's
own client; do not edit. To measure anew:

```sh
ELASTICDL_WRITE_KUBEFLOW=docs/kubeflow_actions.md .venv/bin/python -m pytest \\
  tests/cluster/kubeflow/test_user_actions.py tests/cluster/kubeflow/test_faults_on_kfp.py
```

Each run trains with `image_name`: worker and parameter server are pods of the cluster. Its exit handler is
[`clean_up`](components.md#cleaning-up), unless the table says otherwise. *Left* are pods, services, claims,
config maps and secrets of the job, counted through the API; the pods of the steps are KFP's, which keeps them
with the run. For nothing to be left the tests wait {gone} s, and fail after that.

*Its graph shows* is what KFP's page draws of the run: the state of `train`, and of `exit-handler-1`, the
group that the exit handler is for. The page takes it from the metadata store, and it is not always
[true](known-issues.md#kubeflow-pipelines); the state of the run is.

Why a step has failed is at the end of its log; if it was out of memory, the reason is in the status of its
pod: `OOMKilled`.

## What the user does

- *KFP shows*: the state of the run at its end.
- *gone after*: from the user's word to the end of the run, with nothing left.

| what the user does | KFP shows | its graph shows | of the training | gone after | left |
|---|---|---|---|--:|--:|
{actions}

## What befalls the training step

All that succeeded has each record done exactly once. *Again* are those that went into gradients a second
time. A process that is killed cannot say why: the line is that of the shell or the launcher around it. If it
was for memory, these may be killed with it and the log ends without a word; the pod of the step says
`OOMKilled`.

A node that is lost need not fail the step: once the cluster has given it up, Argo {argo} notes `pod deleted`
and makes the pod anew on another node, whatever `set_retry` says, and the training goes on there.

| what befell it | `set_retry` | KFP shows | its graph shows | end of the step's log | again | left |
|---|---|---|---|---|--:|--:|
{faults}

What a step costs there is among the [benchmarks](benchmarks.md).

Measured on {day}: {machine}.
"""


PLACE = "ELASTICDL_WRITE_KUBEFLOW"
SUCCEEDED, DELETED = "SUCCEEDED", "nothing: it is gone"


@dataclass(slots=True)
class Action:
    """A row of the first table."""

    done: str
    run: TrainingRun
    began: float = field(default_factory=time.monotonic)
    shown: str = ""
    graph: str = ""
    training: str = ""
    gone: float | None = None
    left: int | None = None

    def ended(self, shown: str, training: str) -> None:
        """What became of run and training, and what is left now."""
        self.shown, self.training, self.left = shown, training, len(self.run.left())
        self.graph = "" if shown == DELETED else self.run.graph()

    def over(self, shown: str, training: str, *, seconds: float) -> None:
        """The same, and nothing of the job is left so many seconds from now."""
        self.run.until_nothing_is_left(seconds)
        if shown != SUCCEEDED:  # of a run that goes on, the time since the user's word says nothing
            self.gone = time.monotonic() - self.began
        self.ended(shown, training)

    def line(self) -> str:
        """As the table has it."""
        gone = "" if self.gone is None else f"{self.gone:.1f} s"
        left = "" if self.left is None else str(self.left)
        return f"| {' | '.join((self.done, self.shown, self.graph, self.training, gone, left))} |"


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the second table."""

    done: str
    retry: str
    shown: str
    graph: str
    said: str
    again: int | None
    left: int

    def line(self) -> str:
        """As the table has it."""
        said = f"`{self.said}`" if self.said else ""
        again = "" if self.again is None else str(self.again)
        cells = (self.done, self.retry, self.shown, self.graph, said, again, str(self.left))
        return f"| {' | '.join(cells)} |"


class KubeflowTable:
    """The rows of all tests that have run."""

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.faults: list[Fault] = []

    def action(self, done: str, run: TrainingRun) -> Action:
        """What a user does to a run, from now on."""
        self.actions.append(Action(done, run))
        return self.actions[-1]

    def fault(
        self, done: str, run: TrainingRun, *, retry: str, shown: str, said: str, again: int | None = None
    ) -> None:
        """What befell a run that has ended, and of which nothing is awaited any more."""
        told = said.replace(run.run_id, "RUN").replace("|", "\\|")
        self.faults.append(Fault(done, retry, shown, run.graph(), told, again, len(run.left())))

    @property
    def is_for_the_page(self) -> bool:
        """Whether it is asked for: then tests also do what shows nothing new, but has a row."""
        return PLACE in os.environ

    def write(self) -> None:
        """The whole page, if it is asked for."""
        if not self.is_for_the_page:
            return
        path = Path(os.environ[PLACE])
        before = path.read_text() if path.exists() else ""
        actions, faults = ([row.line() for row in rows] for rows in (self.actions, self.faults))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
        cores, system = len(os.sched_getaffinity(0)), f"{platform.system()} {platform.machine()}"
        path.write_text(
            PAGE.format(
                release=RELEASE,
                argo=_argo_version(),
                gone=GONE_SECONDS,
                actions=_renewed(_under("## What the user does", before), actions, key=1),
                faults=_renewed(_under("## What befalls", before), faults, key=2),
                day=f"{datetime.now(UTC):%Y-%m-%d}",
                machine=f"{cores} cores, {memory} GiB of memory, {system}, load {os.getloadavg()[2]:.0f}",
            )
        )


def _argo_version() -> str:
    """Of the one that the kit builds."""
    module = (SOURCES / "argo" / "go.mod").read_text()
    return re.findall(r"^require \S+/argo-workflows/\S+ v(\S+)$", module, re.MULTILINE)[0]


def _under(head: str, page: str) -> str:
    """What the page has below a head, but for the line of the head itself."""
    return page.partition(head)[2].partition("\n## ")[0].partition("\n")[2]


def _renewed(section: str, lines: list[str], *, key: int) -> str:
    """The rows of a table that were not measured anew, and those that were; `key` cells tell them apart."""
    kept = [line for line in section.splitlines() if line.startswith("|")][2:]
    measured = {_cells(line)[:key] for line in lines}
    return "\n".join([*(line for line in kept if _cells(line)[:key] not in measured), *lines])


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("|")[1:])
