"""The pod of a step as KFP 2.14.3 and Argo 4.0.7 make it and Kubernetes 1.34 keeps it, after one of a kit.

What users set on a task is given.
"""

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
    of_argo = [
        {"name": "ARGO_CONTAINER_NAME", "value": "main"},
        {"name": "ARGO_NODE_ID", "value": "digits-2"},
        {"name": "ARGO_PROGRESS_FILE", "value": "/var/run/argo/progress"},
    ]
    of_kfp = [{"name": name, "valueFrom": field} for name in ("KFP_POD_NAME", "KFP_POD_UID")]
    elsewhere = [{**mount, "mountPath": f"/mainctrfs{mount['mountPath']}"} for mount in own]
    scratches = [{"name": "tmp-dir-argo", "mountPath": "/tmp", "subPath": "0"}]
    projected = {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                }
            },
        ],
    }
    spec = {
        "serviceAccountName": "pipeline-runner",
        "restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "argoexec"}, {"name": "kfp-launcher", "image": "kfp"}],
        "containers": [
            {
                "name": "wait",
                "image": "argoexec",
                "volumeMounts": [*elsewhere, *scratches, *argo, TOKEN],
                "env": of_argo,
            },
            {
                "name": "main",
                "image": "elasticdl",
                "env": [*env, *of_kfp, *of_argo],
                "envFrom": [{"configMapRef": {"name": "metadata-grpc-configmap", "optional": True}}],
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
    marks = {"kubectl.kubernetes.io/default-container": "main", "sidecar.istio.io/inject": "false"}
    metadata = {
        "name": "digits-system-container-impl-2",
        "namespace": "default",
        "annotations": {**marks, **(annotations or {})},
    }
    return as_pod({"metadata": metadata, "spec": spec})


def as_pod(written: dict[str, Any]) -> V1Pod:
    """What is written in a manifest, as the API tells of it."""
    return ApiClient().deserialize(SimpleNamespace(data=json.dumps(written)), "V1Pod")
