"""A job's decisions, all of them: the state machines it is made of, and when each has its say.

`tell(machine, event)` lets one machine take an event; what changed it goes to the journal before anybody
hears the answer. The rows of a journal, told again to a new `Job`, give the same job. Which machines may
hand out work at the moment, and in which order they are asked, is `open_machines()`; one that is
`held_back()` is passed over for a while.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from elastic_runtime.master import evaluation, fleet, ledger
from elastic_runtime.master.evaluation import Evaluation
from elastic_runtime.master.fleet import Fleet, FleetConfig
from elastic_runtime.master.home import Origin
from elastic_runtime.master.ledger import Ledger, Source
from elastic_runtime.platform.pods import Role
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.resources import UNLIMITED

LISTING, TRAINING, PREDICTION, EVALUATION, EXPORT, FLEET = (
    "listing",
    "training",
    "prediction",
    "evaluation",
    "export",
    "fleet",
)
WORK_KIND = {
    LISTING: master_pb2.LIST_SOURCES,
    TRAINING: master_pb2.TRAINING,
    PREDICTION: master_pb2.PREDICTION,
    EVALUATION: master_pb2.EVALUATION,
    EXPORT: master_pb2.EXPORT,
}
_CODEC: dict[str, ModuleType] = {EVALUATION: evaluation}
MODEL_FOLDER = "model"
LONG_WORK_SECONDS = 1800.0
"""Writing a model or listing a table tells of no progress on the way."""
REMEMBERED = 2048
"""Without checkpoints a model goes back to a worker's copy, if at all: by far fewer shards than these. What
is known of them takes some 10 KiB of the journal, which on Kubernetes has 1 MiB.
"""
_UNANSWERED = (
    evaluation.Began,
    evaluation.FinalModel,
    evaluation.SnapshotFailed,
    evaluation.SnapshotLost,
    ledger.WorkerLost,
)

Sources = Mapping[str, Sequence[Source]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended."""

    status: str  # succeeded, failed or stopped
    error: str = ""


class Job:
    """The state machines of one job and the few facts between them."""

    def __init__(self, spec: JobSpec, record: Callable[[list[Any]], None]) -> None:
        self.spec = spec
        self._record = record
        self.machines: dict[str, Any] = {FLEET: Fleet(fleet_config(spec))}
        self._sources: dict[str, Sequence[Source]] = {}
        self.run = ""  # tells this run's checkpoints from those of others in the same folder
        self.era, self.origin = 0, Origin("fresh")
        self.world = 0  # the newest of AllReduce: no later one may have its number
        self.version = self.settled = 0  # the newest known, and the newest that a finished shard led to
        self.saved_version: int | None = None
        self.exported = ""
        self.outcome: Outcome | None = None

    @property
    def fleet(self) -> Fleet:
        """The pods wanted and there."""
        found: Fleet = self.machines[FLEET]
        return found

    @property
    def evaluation(self) -> Evaluation | None:
        """Evaluation, if there is validation data."""
        return self.machines.get(EVALUATION)

    @property
    def main(self) -> Ledger | None:
        """The ledger the job is about: that of training, or of prediction."""
        return self.machines.get(TRAINING) or self.machines.get(PREDICTION)

    @property
    def listed(self) -> bool:
        """Whether it is known what there is to read of each kind."""
        return all(source.name in self.machines for source in self._sources.get(LISTING, ()))

    @property
    def worked_through(self) -> bool:
        """Nothing is left to train, predict or evaluate."""
        main, judge = self.main, self.evaluation
        return self.listed and (main is None or main.finished) and (judge is None or judge.idle)

    @property
    def complete(self) -> bool:
        """Nothing is left to do at all."""
        return self.worked_through and (EXPORT not in self.machines or self.machines[EXPORT].finished)

    @property
    def ended_badly(self) -> bool:
        """It was ended without success, be it that its master died before it had said so."""
        if self.outcome is not None:
            return self.outcome.status != "succeeded"
        failed = any(machine.failed for name, machine in self.machines.items() if name != FLEET)
        return failed or (self.fleet.ending and not self.complete)

    def open_machines(self) -> list[str]:
        """Those that may hand out work now, in the order in which they are asked."""
        if not self.listed:
            return [LISTING]
        names = [name for name in (EVALUATION, TRAINING, PREDICTION) if name in self.machines]
        return [*names, EXPORT] if self.worked_through and EXPORT in self.machines else names

    def held_back(self, machine: str) -> str:
        """Why a machine hands nothing of what is left out for a while; empty if it does.

        What the job is about waits for its minimum of workers, and training for evaluations if too many wait.
        """
        main = TRAINING if TRAINING in self.machines else PREDICTION if self.main else EVALUATION
        if machine == main and self.fleet.below_minimum:
            return f"no work is handed out while fewer than {self.spec.min_workers} workers run"
        is_behind = machine == TRAINING and self.evaluation is not None and self.evaluation.behind
        if is_behind and not self.machines[TRAINING].finished:
            return "evaluations come due faster than they are done: the training waits for them at times"
        return ""

    def is_spare(self, incarnation: str) -> bool:
        """Whether this worker's training would go into a model that nobody keeps: with Local one has it."""
        is_held = bool(self.spec.training_data) and self.spec.distribution_strategy == "Local"
        return is_held and incarnation not in self.origin.holders[:1]

    def tell(self, machine: str, event: Any) -> list[Any]:
        """Let a machine take an event, and put it on record if it changed anything."""
        effects: list[Any] = self.machines[machine].handle(event)
        if machine == FLEET:
            if effects or not isinstance(event, fleet.Tick):
                self._record([FLEET, self.fleet.state()])
        elif ledger.changes(effects) or isinstance(event, _UNANSWERED):
            self._learn(machine, event)
            self._record([machine, *_CODEC.get(machine, ledger).encode(event)])
        return effects

    def begin_run(self, run: str) -> None:
        """The job begins from nothing; `run` is a name that no other beginning has."""
        self._note("run", run)

    def begin(self, sources: Sources) -> None:
        """The job is new, and this is what it reads (nothing yet known of a machine: it will be listed)."""
        self._note("begin", _plain(sources))

    def begin_era(self, era: int, origin: Origin) -> list[Any]:
        """The model starts from `origin`: the ledger goes back with it. Returns the ledger's effects."""
        return self._note("begin_era", [era, dataclasses.asdict(origin)])

    def begin_world(self, world: int) -> None:
        """A new world of AllReduce stands."""
        self._note("world", world)

    def reach(self, version: int) -> None:
        """The model is at this version (not on record: it is told again by the next report)."""
        self.version = max(self.version, version)

    def _learn(self, machine: str, event: Any) -> None:
        """What an event on record tells of the model's version: the next master knows of no other.

        Not that of a snapshot that was asked for: what is due on the way there is still to be opened.
        """
        match event:
            case ledger.Finished() if machine == TRAINING:
                self.settled = max(self.settled, event.version)
                self.reach(event.version)
            case ledger.GivenBack() if machine == TRAINING:
                self.reach(event.version)
            case evaluation.FinalModel() | evaluation.VersionReached(asked=False):
                self.reach(event.version)

    def save(self, version: int) -> None:
        """A checkpoint of this version is complete."""
        self._note("save", version)

    def export(self, where: str) -> None:
        """The finished model was written."""
        self._note("export", where)

    def end(self, outcome: Outcome) -> None:
        """The job is over."""
        self._note("end", dataclasses.asdict(outcome))

    def reopen(self) -> None:
        """A job that was stopped, or failed, is started again."""
        self._note("reopen", None)

    def _note(self, what: str, value: Any) -> list[Any]:
        effects = self._apply(what, value)
        self._record(["job", what, value])
        return effects

    def _apply(self, what: str, value: Any) -> list[Any]:
        match what:
            case "run":
                self.run = value
            case "begin":
                self._make_machines(_sources(value))
            case "begin_era":
                return self._begin_era(value[0], Origin.from_record(value[1]))
            case "world":
                self.world = value
            case "save":
                self.saved_version = value
                self.reach(value)  # the last step of a worker that left may not have been reported
                self.machines[TRAINING].forget_before(value)
            case "export":
                self.exported = value
            case "end":
                self.outcome = Outcome(**value)
            case "reopen":
                self.outcome = None
                self._reopen()
        return []

    def _reopen(self) -> None:
        """Budgets and failures of the earlier attempt are forgiven; what was done stays done."""
        before, fresh = self.fleet.state(), Fleet(fleet_config(self.spec))
        fresh.restore(fresh.state() | {name: before[name] for name in ("next_worker", "relaunches")})
        self.machines[FLEET] = fresh
        for name, machine in self.machines.items():
            if name != FLEET:
                machine.handle(ledger.Reopened())

    def _begin_era(self, era: int, origin: Origin) -> list[Any]:
        first, is_over = self.era == 0, self.complete
        self.era, self.origin = era, origin
        if is_over and not first:  # a model that was lost after all was done takes nothing with it
            return []
        self.version = self.settled = origin.version
        if EXPORT in self.machines and not first:
            self.machines[EXPORT].handle(ledger.UndoAfter(-1))  # reports of an earlier era are refused
        training = self.machines.get(TRAINING)
        if training is None:
            return []
        if origin.ledger is not None:
            return training.handle(ledger.RollBack(dict(origin.ledger)))  # type: ignore[no-any-return]
        if first:
            return []
        return training.handle(ledger.UndoAfter(origin.version if origin.how == "copy" else -1))  # type: ignore[no-any-return]

    def _make_machines(self, sources: Mapping[str, Sequence[Source]]) -> None:
        """One machine for each kind of work there is."""
        for name, found in sources.items():
            self._sources[name] = found
            self.machines[name] = self._make(name, found)

    def _make(self, name: str, sources: Sequence[Source], state: dict[str, Any] | None = None) -> Any:
        kind: Any = Evaluation if name == EVALUATION else Ledger
        options = machine_options(self.spec, name)
        return kind(sources, **options) if state is None else kind.restore(state, sources, **options)

    def replay(self, row: Sequence[Any]) -> None:
        """Take a row of the journal; nothing follows from it that has not followed already."""
        machine, *rest = row
        if machine == "job":
            self._apply(*rest)
        elif machine == FLEET:
            self.fleet.restore(rest[0])
        else:
            event = _CODEC.get(machine, ledger).decode(rest)
            self.machines[machine].handle(event)
            self._learn(machine, event)

    def state(self) -> dict[str, Any]:
        """All of it, for the journal's snapshot."""
        return {
            "sources": _plain(self._sources),
            "machines": {name: machine.state() for name, machine in self.machines.items()},
            "facts": [
                self.run,
                self.world,
                self.era,
                dataclasses.asdict(self.origin),
                self.version,
                self.settled,
                self.saved_version,
                self.exported,
            ],
            "outcome": dataclasses.asdict(self.outcome) if self.outcome else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()`."""
        self._sources = _sources(state["sources"])
        for name, found in self._sources.items():
            self.machines[name] = self._make(name, found, state["machines"][name])
        self.fleet.restore(state["machines"][FLEET])
        self.run, self.world, self.era, origin, *rest = state["facts"]
        self.version, self.settled, self.saved_version, self.exported = rest
        self.origin = Origin.from_record(origin)
        self.outcome = Outcome(**state["outcome"]) if state["outcome"] else None


def model_folder(spec: JobSpec) -> str:
    """Where the finished model goes: as told, or else into the run folder, if that outlives the pods."""
    if spec.output or spec.platform != "process":
        return spec.output
    return str(Path(spec.run_dir).absolute() / MODEL_FOLDER)


def fleet_config(spec: JobSpec) -> FleetConfig:
    """The fleet that a specification asks for."""
    in_cluster = spec.platform == "kubernetes"
    log = f"kubectl logs {{pod}} -n {spec.namespace}" if in_cluster else f"{spec.run_dir}/logs/{{pod}}.log"
    return FleetConfig(
        job=spec.job_name,
        num_workers=spec.num_workers,
        min_workers=min(spec.min_workers, spec.num_workers),
        num_ps=(spec.num_ps_pods or 0) if spec.training_data else 0,
        relaunch_on_worker_failure=spec.relaunch_on_worker_failure,
        external_workers=spec.num_workers == 0,
        grace=30.0 if in_cluster else 3.0,
        log=log,
        more_memory={role: more_memory(spec, role) for role in (Role.PS, Role.WORKER)},
    )


def more_memory(spec: JobSpec, role: Role) -> str:
    """What to do when pods of that role run out of memory."""
    if spec.platform != "kubernetes":
        return "make --num_workers or --minibatch_size smaller"
    has_limit = getattr(spec, f"{role}_resource_limit") not in ("", UNLIMITED)
    bound = "limit" if has_limit else "request"  # which is the limit then, or makes room on a node
    return f"give it more by --{role}_resource_{bound}, or make --minibatch_size smaller"


def machine_options(spec: JobSpec, name: str) -> dict[str, Any]:
    """How a machine is made."""
    options: dict[str, Any] = {
        "records_per_shard": spec.records_per_task,
        "max_failures": spec.max_task_attempts,
        "lease_seconds": spec.lease_timeout,
    }
    match name:
        case "training":
            options |= {"epochs": spec.num_epochs, "seed": spec.seed if spec.shuffle_shards else None}
            options["remembered"] = None if spec.checkpoint_steps else REMEMBERED
        case "prediction":
            options["remembered"] = 0  # its model stays what it is
        case "evaluation":
            options |= {
                "steps": spec.evaluation_steps,
                "start_delay": spec.evaluation_start_delay_secs,
                "throttle": spec.evaluation_throttle_secs,
            }
        case "listing" | "export":
            options |= {"records_per_shard": 1, "lease_seconds": max(spec.lease_timeout, LONG_WORK_SECONDS)}
    return options


def _plain(sources: Sources) -> dict[str, list[Any]]:
    return {name: [dataclasses.astuple(source) for source in found] for name, found in sources.items()}


def _sources(rows: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, Sequence[Source]]:
    return {name: [Source(*row) for row in found] for name, found in rows.items()}
