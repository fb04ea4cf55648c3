"""Which engine takes a pipeline: the one that is named, or the first that is there, or this machine.

Kubeflow Pipelines goes before Argo, because it brings an Argo of its own that is not meant for users. A
cluster that is configured but does not answer counts as none, and is told of. In one that has Kubeflow
Pipelines where this account may not look, none is taken by itself: its Argo is not meant either.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.platform.kubernetes.workflows import Workflows
from pipelines.engines import Absent, Engine, kfp
from pipelines.engines.argo import Argo
from pipelines.engines.local import Local
from pipelines.packages.argo import ArgoPackage
from pipelines.packages.kfp import KfpPackage

ENGINES = ("auto", "kfp", "argo", "local", "none")
_LOOK_SECONDS = 3.0
_REMEDY = f"see that `kubectl get pods` works, or set {kfp.ENDPOINT}, or name another --engine"


def choose(
    asked: str,
    for_kfp: KfpPackage,
    for_argo: ArgoPackage | None,
    *,
    namespace: str,
    here: Mapping[str, Any],
    folder: Path,
) -> Engine:
    """The engine, found but not yet asked to do anything."""
    because = "--engine=local"
    if asked in {"auto", "kfp"} and (configured := kfp.configured(for_kfp, namespace)):
        return configured
    if asked != "local":
        try:
            return _in_cluster(asked, for_kfp, for_argo, namespace, _cluster(namespace))
        except Absent as absent:
            if asked != "auto":
                raise
            because = absent.what
    if namespace:
        raise InputError("is for a cluster, and the pipeline would run here", where="--namespace")
    parameters = {**here, **for_kfp.parameters}
    return Local(for_kfp, folder=folder, parameters=parameters, because=because)


def _in_cluster(
    asked: str, for_kfp: KfpPackage, for_argo: ArgoPackage | None, namespace: str, cluster: Workflows
) -> Engine:
    reasons = []
    if asked in {"auto", "kfp"}:
        try:
            return kfp.in_cluster(for_kfp, namespace, cluster)
        except Absent as absent:
            reasons.append(absent.what)
    if asked in {"auto", "argo"}:
        if for_argo is None:
            reasons.append("the pipeline has no workflow for Argo")
        elif not cluster.are_known():
            reasons.append(f"the cluster {cluster.server} has no Argo: it does not know workflows")
        else:
            return Argo(for_argo, cluster)
    raise Absent("; ".join(reasons), remedy=_REMEDY)


def _cluster(namespace: str) -> Workflows:
    """The one that kubectl would talk to, if it answers."""
    try:
        cluster = Workflows.connect(namespace, patience=_LOOK_SECONDS)
        cluster.are_known()
    except ElasticError as problem:
        raise Absent(problem.what, where=problem.where, remedy=_REMEDY) from problem
    return cluster
