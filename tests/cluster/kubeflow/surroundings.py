"""What users have in the cluster beside their pipelines: rights, a folder that pods share, a login."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.cluster.kit import kfp
from tests.process.job.harness import ZOO, write_data

ACCOUNT = "pipeline-runner"
MANIFESTS = Path(__file__).parents[3] / "manifests"
RIGHTS = ("elasticdl-rbac.yaml", "elasticdl-steps-rbac.yaml")


@contextmanager
def granted(pipelines: kfp.Kfp) -> Iterator[None]:
    """The rights that the docs have a user give to the account of pipelines; taken away again."""
    objects = [each for name in RIGHTS for each in yaml.safe_load_all((MANIFESTS / name).read_text())]
    for each in objects:
        for subject in each.get("subjects", []):
            subject["name"] = ACCOUNT
    pipelines.namespace.apply(*objects)
    try:
        yield
    finally:
        for each in objects:
            words = ("delete", "--ignore-not-found", each["kind"], each["metadata"]["name"])
            pipelines.cluster.again(functools.partial(pipelines.namespace.kubectl, *words))


@contextmanager
def shared(pipelines: kfp.Kfp, folder: Path, name: str) -> Iterator[Path]:
    """A folder with data and models that pods see by the claim of this name."""
    place = folder / "job"
    write_data(place / "data")
    shutil.copytree(ZOO, place / "zoo", ignore=shutil.ignore_patterns("__pycache__"))
    for each in (place, *folder.parents, folder):
        if each.stat().st_uid == os.getuid() and not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o011)  # pods are not root
    place.chmod(0o777)
    (place / "zoo").chmod(0o777)
    size, modes = {"storage": "1Gi"}, {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"capacity": size, "hostPath": {"path": str(place)}, **modes}
    bound = {"claimRef": {"namespace": pipelines.namespace.name, "name": name}}
    wanted = {"resources": {"requests": size}, "volumeName": name, **modes}
    head = {"apiVersion": "v1", "metadata": {"name": name}}
    pipelines.cluster.apply({**head, "kind": "PersistentVolume", "spec": volume | bound})
    try:
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        pipelines.namespace.apply({**claim, "spec": wanted})
        yield place
    finally:
        pipelines.namespace.kubectl("delete", "persistentvolumeclaim", name, "--wait=false", check=False)
        pipelines.cluster.kubectl("delete", "persistentvolume", name, "--wait=false", check=False)


def by_token(pipelines: kfp.Kfp, folder: Path) -> dict[str, str]:
    """The environment of somebody who has no certificate, but a token, as clouds give."""
    cluster = pipelines.cluster
    role = ("--clusterrole=cluster-admin", "--serviceaccount=default:somebody")
    for what, *words in (["serviceaccount"], ["clusterrolebinding", *role]):
        cluster.kubectl("create", what, "somebody", *words, check=False)  # a cluster that stays may have both
    known = json.loads(cluster.kubeconfig.read_text())
    known["users"][0]["user"] = {"token": cluster.kubectl("create", "token", "somebody").strip()}
    (folder / "kubeconfig").write_text(json.dumps(known))
    return {**pipelines.environment(), "KUBECONFIG": str(folder / "kubeconfig")}
