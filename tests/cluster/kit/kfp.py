"""Kubeflow Pipelines in a cluster of the kit: the release's own programs, manifests, accounts and rights.

    pipelines = kfp.started(cluster)    # once for a cluster; later it is found
    pipelines.environment()             # with it, the stock `kfp.Client()` finds its way

What is changed of the manifests: the images are the kit's, the services of database, metadata and S3 lead
beside the API server, and it is looked every second whether the server has started. Its programs keep off the
last node, which tests may so lose without them. KFP's page and its cache of the first version are not there.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests import took
from tests.cluster.kit import kfp_programs, kfp_services, s3
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster
from tests.cluster.kit.images import Image, push
from tests.cluster.kit.kfp_programs import RELEASE
from tests.cluster.kit.kit import say
from tests.cluster.kit.namespace import Namespace

NAMESPACE = "kubeflow"
UPSTREAM = "ghcr.io/kubeflow"
LOOK_EVERY_SECONDS = 1
STARTS_WITHIN_SECONDS = 120
PROBE_SECONDS = 30  # upstream's two are not enough on a machine that has much else to do
LOGGED = "--logtostderr=true"
_ARTIFACTS = "SELECT a.id, t.name, a.uri FROM Artifact a JOIN Type t ON t.id = a.type_id ORDER BY a.id"
_FIGURES = (
    "SELECT name, double_value FROM ArtifactProperty WHERE artifact_id = ? AND double_value IS NOT NULL"
)
# By the image's name in the manifests: the program, its name there, and what it is told.
IMAGES = {
    "kfp-api-server": ("apiserver", "apiserver", ("--config=/config", LOGGED)),
    "kfp-persistence-agent": (
        "persistence",
        "persistence_agent",
        (LOGGED, f"--namespace={NAMESPACE}", "--ttlSecondsAfterWorkflowFinish=86400", "--numWorker=2"),
    ),
    "kfp-scheduled-workflow-controller": (
        "scheduledworkflow",
        "controller",
        (LOGGED, f"--namespace={NAMESPACE}"),
    ),
    "kfp-driver": ("driver", "driver", ()),
    "kfp-launcher": ("launcher-v2", "launcher-v2", ()),
}


@dataclass(frozen=True, slots=True)
class Kfp:
    """Kubeflow Pipelines, where it runs."""

    cluster: Cluster
    store: s3.Store

    @property
    def namespace(self) -> Namespace:
        """Where it and its runs are."""
        return Namespace(self.cluster, NAMESPACE)

    def environment(self) -> dict[str, str]:
        """For a user's command: by kubeconfig, KFP's client finds the server and asks through the API."""
        return {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)}

    def metadata(self) -> closing[sqlite3.Connection]:
        """The metadata store, to be read; waited for while its server writes."""
        place = f"file:{kfp_services.database(self.cluster)}?mode=ro"
        return closing(sqlite3.connect(place, uri=True, timeout=PATIENCE_SECONDS))

    def artifacts(self) -> list[Artifact]:
        """All that the metadata store knows of, the oldest first."""
        with self.metadata() as known:
            rows = known.execute(_ARTIFACTS).fetchall()
            return [Artifact(kind, uri, dict(known.execute(_FIGURES, (key,)))) for key, kind, uri in rows]


@dataclass(frozen=True, slots=True)
class Artifact:
    """An output of a step, as the metadata store has it."""

    kind: str
    uri: str
    figures: dict[str, float]

    @property
    def key(self) -> str:
        """Its name in the bucket."""
        return self.uri.removeprefix(f"minio://{kfp_services.BUCKET}/")

    @property
    def step(self) -> str:
        """What has made it, in `.../pipeline/run/step/attempt/name`."""
        return self.uri.split("/")[-3]


why_not = kfp_services.why_not


def prepare() -> Path:
    """Installs and builds what it needs beyond a cluster; the second time there is nothing to do."""
    began, said = time.monotonic(), list[str]()

    def told(line: str) -> None:
        said.append(line)
        say(line)

    kfp_services.install()
    programs = kfp_programs.build(told)
    if said:
        took.note("programs of Kubeflow Pipelines, built once", time.monotonic() - began)
    return programs


def started(cluster: Cluster) -> Kfp:
    """That of this cluster, which ends with it."""
    is_new = not cluster.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found", "--output=name")
    if is_new:
        programs, began = prepare(), time.monotonic()
        places = kfp_services.start(cluster)
        _push_images(cluster, programs)
        Namespace.create(cluster, NAMESPACE)
        cluster.apply(*_objects(cluster, programs, places))
    deployments = ("deployment", "--all", f"--namespace={NAMESPACE}")
    cluster.wait("--for=condition=Available", *deployments, seconds=STARTS_WITHIN_SECONDS)
    if is_new:
        took.note("Kubeflow Pipelines in a cluster, ready", time.monotonic() - began)
    return Kfp(cluster, s3.started(cluster).of(kfp_services.BUCKET))


def _push_images(cluster: Cluster, programs: Path) -> None:
    configuration = {"/config/config.json": (programs / "config.json").read_text()}
    for image, (program, name, words) in IMAGES.items():
        made = Image({f"/bin/{name}": programs / program}, texts=configuration, entrypoint=(name, *words))
        push(made, f"{cluster.site.registry}/{image}:{RELEASE}")


def _objects(
    cluster: Cluster, programs: Path, places: dict[str, tuple[str, int]]
) -> Iterator[dict[str, Any]]:
    """Those of the manifests, at home here; services first, as pods are told where they are."""
    found = list(_read(programs / "manifests", cluster.site.registry))
    for each in sorted(found, key=lambda each: each["kind"] == "Deployment"):
        each["metadata"]["namespace"] = NAMESPACE
        match each["kind"]:
            case "CustomResourceDefinition":
                del each["metadata"]["namespace"]
            case "RoleBinding":
                for subject in each["subjects"]:
                    subject["namespace"] = NAMESPACE
            case "Deployment":
                _look_often(each)
                _keep_off(each, [node.name for node in cluster.nodes])
            case "Service" if place := places.get(each["metadata"]["name"]):
                yield _slice(each, *place)
                del each["spec"]["selector"]
        yield each


def _read(folder: Path, registry: str) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.iterdir()):
        text = file.read_text().replace(UPSTREAM, registry).replace(":dummy", f":{RELEASE}")
        yield from filter(None, yaml.safe_load_all(text))


def _look_often(deployment: dict[str, Any]) -> None:
    """Whether it has started is looked at each second; whether it lives as upstream, with more patience."""
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        probes = {name: probe for name, probe in container.items() if name.endswith("Probe")}
        for probe in probes.values():
            probe["timeoutSeconds"] = PROBE_SECONDS
        first = probes.get("startupProbe", probes.get("readinessProbe", {}))
        if first:
            first.pop("initialDelaySeconds", None)
            first |= {"periodSeconds": LOOK_EVERY_SECONDS}
        if "startupProbe" in container:
            container["startupProbe"]["failureThreshold"] = STARTS_WITHIN_SECONDS
            probes.get("readinessProbe", {}).pop("initialDelaySeconds", None)


def _keep_off(deployment: dict[str, Any], nodes: list[str]) -> None:
    """The last node, if there are others."""
    *others, _ = nodes
    if others:
        known = {"key": "kubernetes.io/hostname", "operator": "In", "values": others}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [known]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        deployment["spec"]["template"]["spec"]["affinity"] = affinity


def _slice(service: dict[str, Any], host: str, port: int) -> dict[str, Any]:
    """Has the service lead to this place."""
    name = service["metadata"]["name"]
    ports = [{"name": each.get("name", ""), "port": port} for each in service["spec"]["ports"]]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": ports,
    }
