"""What `--volume` means in a pod: its volumes, and where its container sees them.

Beside them every pod has a folder of its own at `/elasticdl`, which ends with it; a volume that is mounted
there takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubernetes.client import (
    V1EmptyDirVolumeSource,
    V1HostPathVolumeSource,
    V1PersistentVolumeClaimVolumeSource,
    V1Volume,
    V1VolumeMount,
)

from elastic_runtime.spec.volumes import Volume

SCRATCH = "/elasticdl"


def volumes_and_mounts(job: str, wanted: Sequence[Volume]) -> tuple[list[V1Volume], list[V1VolumeMount]]:
    """Claims before host paths; what is mounted twice is one volume."""
    in_order = sorted(wanted, key=lambda volume: not volume.claim_name)
    names: dict[tuple[str, str, str], str] = {}
    for volume in in_order:
        names.setdefault(_source(volume), f"elasticdl-{job}-volume-{len(names)}")
    volumes = [_volume(name, *source) for source, name in names.items()]
    mounts = [
        V1VolumeMount(
            name=names[_source(volume)],
            mount_path=volume.mount_path,
            sub_path=volume.sub_path.strip("/") or None,  # the API takes no leading slash
        )
        for volume in in_order
    ]
    if all(volume.mount_path.rstrip("/") != SCRATCH for volume in wanted):
        volumes.append(V1Volume(name="elasticdl", empty_dir=V1EmptyDirVolumeSource()))
        mounts.append(V1VolumeMount(name="elasticdl", mount_path=SCRATCH))
    return volumes, mounts


def _source(volume: Volume) -> tuple[str, str, str]:
    return volume.claim_name, volume.host_path, volume.type


def _volume(name: str, claim: str, path: str, kind: str) -> V1Volume:
    if claim:
        return V1Volume(
            name=name, persistent_volume_claim=V1PersistentVolumeClaimVolumeSource(claim_name=claim)
        )
    return V1Volume(name=name, host_path=V1HostPathVolumeSource(path=path, type=kind or None))
