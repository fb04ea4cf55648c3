"""What options mean together: contradictions are refused, what was left open is filled in, and both are said.

`settle` looks at a spec whose single values are valid already and returns what to change and what to tell the
user. Each rule changes the draft it is given, yields notices and raises `InputError`. Settled again, a spec
stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from elastic_runtime.errors import InputError
from elastic_runtime.spec.place import Kubernetes
from elastic_runtime.spec.resources import excess
from elastic_runtime.spec.volumes import parse_volumes

if TYPE_CHECKING:
    from elastic_runtime.spec.job import JobSpec

Rule = Callable[[SimpleNamespace, Set[str]], Iterator[str]]

_ORPHAN_TIMEOUT = {"process": 30.0, "kubernetes": 300.0}
_RUNS = {"process": "runs", "kubernetes": "/elasticdl/runs"}
_MASTER_PORT = 50001
"""On Kubernetes, where the service of a job's master leads, and its other pods look for it."""
_NAMES_AN_IMAGE = ("image_name", "worker_image", "ps_image", "base_image", "docker_image_repository")


def settle(spec: JobSpec) -> tuple[dict[str, Any], list[str]]:
    """The values to change, and what to tell the user."""
    draft = SimpleNamespace(**dict(spec))
    notices = [notice for rule in _RULES for notice in rule(draft, spec.model_fields_set)]
    changes = {name: value for name, value in vars(draft).items() if value != getattr(spec, name)}
    return changes, notices


def _purpose(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    if draft.prediction_data:
        for name in ("training_data", "validation_data"):
            if getattr(draft, name):
                raise InputError(f"--prediction_data excludes --{name}", remedy="leave one of them out")
    predicts_or_evaluates = draft.prediction_data or (draft.validation_data and not draft.training_data)
    if predicts_or_evaluates and not draft.checkpoint_dir_for_init:
        raise InputError(
            "without --training_data there is no model to use",
            remedy="name a trained one by --checkpoint_dir_for_init",
        )
    yield from ()


def _place(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    if draft.platform == "auto":
        named = [f"--{name}" for name in _NAMES_AN_IMAGE if getattr(draft, name)]
        draft.platform = "kubernetes" if named else "process"
        yield (
            f"the job runs on Kubernetes, because of {', '.join(named)}"
            if named
            else "the job runs as processes on this machine, because no image is named"
        )
    if not draft.orphan_timeout:
        draft.orphan_timeout = _ORPHAN_TIMEOUT[draft.platform]
    if not draft.run_dir and draft.job_name:
        draft.run_dir = f"{_RUNS[draft.platform]}/{draft.job_name}"
    if not draft.checkpoint_dir and draft.run_dir:
        shared = _shared_folder(draft)
        draft.checkpoint_dir = f"{(shared or draft.run_dir).rstrip('/')}/checkpoints"
        if draft.checkpoint_steps and shared:
            yield f"checkpoints go to {draft.checkpoint_dir}, because no --checkpoint_dir is given"
        elif draft.checkpoint_steps:
            yield (
                f"--checkpoint_steps={draft.checkpoint_steps} has no effect, because no volume is mounted: "
                "what a pod writes is lost with it (a lost parameter server gets its part back from workers)"
            )
            draft.checkpoint_steps = 0


def _restarts(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    """A kubelet that starts a container again knows no budgets, and not when a job is over."""
    if draft.platform == "kubernetes" and draft.restart_policy != "Never":
        yield (
            f"--restart_policy={draft.restart_policy} is taken as Never: the master replaces workers and "
            "parameter servers that are lost, and whoever follows the job replaces the master"
        )
        draft.restart_policy = "Never"


def _port(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    if draft.platform == "kubernetes" and draft.port not in (0, _MASTER_PORT):
        yield f"--port={draft.port} has no effect on Kubernetes: the master listens on {_MASTER_PORT}"
        draft.port = _MASTER_PORT


def _outlives_pods(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    """What one pod writes for others has to be on a volume; what a cluster spec mounts is not known here."""
    names = ["output", *(["checkpoint_dir"] if draft.checkpoint_steps else [])]
    if draft.platform == "process" or draft.cluster_spec or draft.cluster_spec_json:
        names = []
    for name in names:
        path = getattr(draft, name)
        if path and "://" not in path and not _is_on_volume(draft, path):
            raise InputError(
                f"{path} is on no volume: what a pod writes there is lost with it",
                where=f"--{name}",
                remedy="mount one: --volume=claim_name=CLAIM,mount_path=/data, and name a folder in it",
            )
    yield from ()


def _shared_folder(draft: SimpleNamespace) -> str:
    """Where pods find each other's files, if there is such a place."""
    if draft.platform == "process" or _is_on_volume(draft, draft.run_dir):
        return str(draft.run_dir)
    volumes = parse_volumes(draft.volume)
    return f"{volumes[0].mount_path.rstrip('/')}/elasticdl/{draft.job_name}" if volumes else ""


def _is_on_volume(draft: SimpleNamespace, path: str) -> bool:
    return any(
        PurePosixPath(path).is_relative_to(volume.mount_path) for volume in parse_volumes(draft.volume)
    )


def _shards(draft: SimpleNamespace, given: Set[str]) -> Iterator[str]:
    if draft.records_per_task is None:
        draft.records_per_task = draft.minibatch_size * draft.num_minibatches_per_task
    minibatches = math.ceil(draft.records_per_task / draft.minibatch_size)
    if "num_minibatches_per_task" in given and minibatches != draft.num_minibatches_per_task:
        raise InputError(
            f"--records_per_task={draft.records_per_task} contradicts --num_minibatches_per_task="
            f"{draft.num_minibatches_per_task} with --minibatch_size={draft.minibatch_size}",
            remedy="leave one of them out",
        )
    draft.num_minibatches_per_task = minibatches
    yield from ()


def _parameter_servers(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    if draft.distribution_strategy == "ParameterServerStrategy":
        if draft.num_ps_pods == 0:
            raise InputError(
                "ParameterServerStrategy needs a parameter server, got --num_ps_pods=0",
                remedy="leave it out, or give --distribution_strategy=AllreduceStrategy or Local",
            )
        draft.num_ps_pods = draft.num_ps_pods or 1
    elif draft.num_ps_pods:
        yield f"--num_ps_pods={draft.num_ps_pods} has no effect with {draft.distribution_strategy}"
    if draft.distribution_strategy != "ParameterServerStrategy":
        draft.num_ps_pods = 0


def _workers(draft: SimpleNamespace, given: Set[str]) -> Iterator[str]:
    if draft.distribution_strategy == "Local" and draft.num_workers > 1:
        if "num_workers" in given:
            yield f"--num_workers={draft.num_workers}: the strategy Local runs one worker"
        draft.num_workers = 1
    if not draft.num_workers:
        yield "the job starts no workers: it waits for those started by hand"
    elif draft.min_workers > draft.num_workers:
        raise InputError(
            f"--min_workers={draft.min_workers} is more than --num_workers={draft.num_workers}",
            remedy="min_workers <= num_workers",
        )


def _steps(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    if draft.use_async and (draft.grads_to_wait or 1) > 1:
        yield f"--grads_to_wait={draft.grads_to_wait} is taken as 1, because of --use_async"
        draft.grads_to_wait = 1
    if draft.grads_to_wait is None:
        draft.grads_to_wait = 1 if draft.use_async else max(1, draft.num_workers)
    if not draft.use_async and draft.get_model_steps > 1:
        yield f"--get_model_steps={draft.get_model_steps} is taken as 1: only --use_async allows more"
        draft.get_model_steps = 1


def _evaluation(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    while_training = draft.evaluation_steps or draft.evaluation_throttle_secs
    if draft.training_data and draft.validation_data and not while_training:
        yield "validation data without --evaluation_steps: there will be one evaluation, at the end"


def _resources(draft: SimpleNamespace, _: Set[str]) -> Iterator[str]:
    for role in ("master", "worker", "ps"):
        request, limit = getattr(draft, f"{role}_resource_request"), getattr(draft, f"{role}_resource_limit")
        if fault := excess(request, limit):
            raise InputError(
                fault, where=f"--{role}_resource_limit", remedy="a limit is at least the request"
            )
    yield from ()


def _without_effect(draft: SimpleNamespace, given: Set[str]) -> Iterator[str]:
    """Nothing that was typed is passed over in silence."""
    strategy = draft.distribution_strategy
    cases: list[tuple[bool, str, tuple[str, ...]]] = [
        (draft.platform == "process", "on this machine", tuple(Kubernetes.model_fields)),
        (
            not (draft.base_image or draft.docker_image_repository),
            "without --base_image or --docker_image_repository: no image is built",
            ("extra_pypi_index",),
        ),
        (
            strategy != "ParameterServerStrategy",
            f"with {strategy}",
            ("grads_to_wait", "use_async", "sync_version_tolerance", "lr_staleness_modulation"),
        ),
        (
            strategy != "AllreduceStrategy",
            f"with {strategy}",
            ("lr_scaling", "gradient_compression", "collective_timeout"),
        ),
        (not draft.use_async, "without --use_async", ("lr_staleness_modulation",)),
        (draft.use_async, "with --use_async", ("sync_version_tolerance",)),
        (
            not draft.validation_data,
            "without --validation_data",
            ("evaluation_steps", "evaluation_throttle_secs", "evaluation_start_delay_secs"),
        ),
        (
            not draft.evaluation_throttle_secs,
            "without --evaluation_throttle_secs",
            ("evaluation_start_delay_secs",),
        ),
    ]
    said: set[str] = set()
    for holds, reason, names in cases:
        idle = [name for name in names if holds and name in given and name not in said]
        said.update(idle)
        if idle:
            options = ", ".join(f"--{name}" for name in idle)
            yield f"{options} {'have' if len(idle) > 1 else 'has'} no effect {reason}"


_RULES: tuple[Rule, ...] = (
    _purpose,
    _place,
    _restarts,
    _port,
    _outlives_pods,
    _shards,
    _parameter_servers,
    _workers,
    _steps,
    _evaluation,
    _resources,
    _without_effect,
)
