"""A master in a pod: its surroundings are what the API server tells and keeps.

The client has made the job's config map, secret and service; a master that was applied by hand, from a
manifest, makes its own. Its pod owns the config map together with all others of the job, and the config
map owns the rest: when the last pod is gone, the cluster removes everything.

The master may be a pipeline's step. No client has then compared the work with that of the job whose journal
is there, and a success is of use only once the step has brought it to its outputs: so the work is compared
here, and the journal stays until the step itself removes it with `forget`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import os
from collections.abc import Iterator
from typing import Any

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.master.commands import Place, command
from elastic_runtime.master.fleet import StartPod
from elastic_runtime.master.journal_in_cluster import store_for
from elastic_runtime.master.surroundings import Surroundings
from elastic_runtime.platform.kubernetes import belongings, journal_place, labels
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import ApiError
from elastic_runtime.platform.kubernetes.objects import (
    PORTS,
    SPEC_KEY,
    Blueprint,
    owner_of,
)
from elastic_runtime.platform.kubernetes.platform import KubernetesPlatform
from elastic_runtime.platform.pods import PodSpec, Role, pod_name
from elastic_runtime.rpc.token import token_from_environment
from elastic_runtime.spec.job import JobSpec

log = logging.getLogger(__name__)

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the token is asked for on every call


def in_a_pod(spec: JobSpec, *, in_step: bool = False) -> Surroundings:
    """Find or make what the job needs in its namespace."""
    own_name, own_address = os.environ.get("ELASTICDL_POD", ""), os.environ.get("ELASTICDL_POD_IP", "")
    if not own_name or not own_address:
        raise ElasticError(
            "a master with --platform=kubernetes runs in a pod, and this process is in none",
            remedy="`elasticdl train` starts it there; in a manifest, set ELASTICDL_POD and ELASTICDL_POD_IP",
        )
    api = Api.connect(spec.namespace)  # by this pod's account, whatever its client went by
    api.require_pods()  # of all that an account without rights may not, its user knows this by name
    patient = api.patient(math.inf)  # a job outlives the absence of an API server
    kept = api.get_config_map(labels.anchor_name(spec.job_name))
    if kept is not None:
        if in_step:
            _same_work(spec, kept)
        journal_place.refuse_another(spec, kept)
    own = api.get_pod(own_name)
    blueprint = Blueprint.of(
        spec,
        None if in_step else kept,  # a step has read its cluster spec itself, and may have another one now
        own=own,
    )
    if in_step and kept is not None:
        belongings.renew_anchor(api, blueprint)
    found = kept or belongings.anchor(api, blueprint)
    anchor = owner_of(found)
    if own is not None:
        api.add_owner(anchor.name, owner_of(own))
    token = token_from_environment()
    if token in ("", belongings.PLACEHOLDER):
        token = belongings.new_token(api, blueprint, anchor)
    belongings.own_service(api, blueprint.master_service(anchor))
    return Surroundings(
        platform=KubernetesPlatform(patient, blueprint, anchor=anchor, own_name=own_name),
        store=store_for(spec, patient, found),
        token=token,
        listen=EVERYWHERE,
        host=own_address,
        place=_place(spec),
        successor_on_signal=True,
        forget=functools.partial(_let_go, api, blueprint.spec, keep=in_step),
    )


def pods_to_come(spec: JobSpec) -> Iterator[PodSpec]:
    """Those that the master of a job asks for as it begins, as far as it is known before."""
    for role, count in ((Role.PS, spec.num_ps_pods or 0), (Role.WORKER, spec.num_workers)):
        for index in range(count):
            start = StartPod(pod_name(spec.job_name, role, index), role, index)
            yield PodSpec(start.name, spec.job_name, role, index, command(spec, start, _place(spec)))


def _place(spec: JobSpec) -> Place:
    return Place(
        address=f"{pod_name(spec.job_name, Role.MASTER)}:{PORTS[Role.MASTER]}",
        python="python",
        ps_options=(f"--host={EVERYWHERE}", f"--port={PORTS[Role.PS]}"),
    )


def forget(api: Api, spec: JobSpec) -> None:
    """Remove the journal of a job that has succeeded, and with it all that it owns."""
    name = labels.anchor_name(spec.job_name)
    try:
        api.patient(math.inf).delete_config_map(name)
    except ApiError as problem:  # the job has succeeded all the same
        left = f"config map {name} of namespace {spec.namespace}, and what it owns"
        log.warning("left behind: %s, which `kubectl delete` or the step clean_up removes: %s", left, problem)


def _same_work(spec: JobSpec, kept: Any) -> None:
    """Refuse to go on with a job that was given other work."""
    if changes := JobSpec.from_json(kept.data[SPEC_KEY]).differences(spec):
        raise InputError(
            f"job {spec.job_name!r}, begun with other options, is there still: {', '.join(changes)}",
            where=spec.namespace,
            remedy="give the same ones, or another job_name, or run the step clean_up with this one first",
        )


async def _let_go(api: Api, spec: JobSpec, succeeded: bool, *, keep: bool) -> None:
    """Only the master's pod stays; with a failed job also its journal, and what that owns, to go on from."""
    if succeeded and not keep:
        await asyncio.to_thread(forget, api, spec)
    await asyncio.to_thread(api.close)
