"""The pod of a step as KFP and Argo make it and Kubernetes keeps it, with what users set on a task."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from kubernetes.client import ApiClient, V1Pod

TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
OF_KFP = ("gcs", "s3", "minio", "dot-local", "dot-cache", "dot-config")
TOKEN = {"name": "kube-api-access-x7k2p", "mountPath": TOKENS, "readOnly": True}
BY_DEFAULT = [
    {
        "key": f"node.kubernetes.io/{state}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for state in ("not-ready", "unreachable")
]


def step_pod(
    *,
    volumes: tuple[Any, ...] = (),
    mounts: tuple[Any, ...] = (),
    env: tuple[Any, ...] = (),
    tolerations: tuple[Any, ...] = (),
    resources: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **more: Any,
) -> V1Pod:
    """As the API tells of it, with these parts of a task."""
    scratch = [f"{name}-scratch" for name in OF_KFP]
    argo = [{"name": "var-run-argo", "mountPath": "/var/run/argo"}]
    own = [{"name": "kfp-launcher", "mountPath": "/kfp-launcher"}]
    own += [{"name": name, "mountPath": f"/{name.removesuffix('-scratch')}"} for name in scratch]
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    of_argo = [{"name": "ARGO_CONTAINER_NAME", "value": "main"}, {"name": "ARGO_TEMPLATE", "value": "{}"}]
    projected = {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        ],
    }
    spec = {
        "serviceAccountName": "pipeline-runner",
        "restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "argoexec"}, {"name": "kfp-launcher", "image": "kfp"}],
        "containers": [
            {"name": "wait", "image": "argoexec", "volumeMounts": [*argo, TOKEN], "env": of_argo},
            {
                "name": "main",
                "image": "elasticdl",
                "env": [*env, {"name": "KFP_POD_NAME", "valueFrom": field}, *of_argo],
                "volumeMounts": [*mounts, *own, *argo, TOKEN],
                "resources": resources or {},
            },
        ],
        "volumes": [
            {"name": "var-run-argo", "emptyDir": {}},
            {"name": "tmp-dir-argo", "emptyDir": {}},
            {"name": "kfp-launcher", "emptyDir": {}},
            *({"name": name, "emptyDir": {}} for name in scratch),
            *volumes,
            {"name": TOKEN["name"], "projected": projected},
        ],
        "tolerations": [*tolerations, *BY_DEFAULT],
        **more,
    }
    metadata = {
        "name": "digits-1-system-container-impl-2",
        "namespace": "n",
        "annotations": annotations or {},
    }
    return as_pod({"metadata": metadata, "spec": spec})


def as_pod(written: dict[str, Any]) -> V1Pod:
    """What is written in a manifest, as the API tells of it."""
    return ApiClient().deserialize(SimpleNamespace(data=json.dumps(written)), "V1Pod")
