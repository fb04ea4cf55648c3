"""`--volume` in a pod: seeds of the tutorials, and what Kubernetes would refuse otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import child, container, plan

from elastic_runtime.platform.kubernetes.volumes import SCRATCH, volumes_and_mounts
from elastic_runtime.spec.volumes import Volume, parse_volumes


def mounted(text):
    """Where what is seen: (mount path, source, sub path), in order."""
    volumes, mounts = volumes_and_mounts("j", parse_volumes(text))
    sources = {volume.name: source(volume) for volume in volumes}
    return [(mount.mount_path, sources[mount.name], mount.sub_path) for mount in mounts]


def source(volume):
    if volume.empty_dir:
        return "own"
    claim, path = volume.persistent_volume_claim, volume.host_path
    return claim.claim_name if claim else (path.path, path.type)


OWN = ("/elasticdl", "own", None)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", [OWN]),
        ("host_path=/data,mount_path=/data", [("/data", ("/data", None), None), OWN]),
        (
            "volume_name=data-volume,mount_path=/data,claim_name=fileserver-claim",
            [("/data", "fileserver-claim", None), OWN],
        ),
        (
            "host_path=/d,type=Directory,mount_path=/d,sub_path=a/b",
            [("/d", ("/d", "Directory"), "a/b"), OWN],
        ),
        (
            "claim_name=c1,mount_path=/path1;claim_name=c1,mount_path=/path2,sub_path=/sub0",
            [("/path1", "c1", None), ("/path2", "c1", "sub0"), OWN],
        ),
        (
            "host_path=/h,mount_path=/a;claim_name=c,mount_path=/b",
            [("/b", "c", None), ("/a", ("/h", None), None), OWN],
        ),
        ("claim_name=mine,mount_path=/elasticdl", [("/elasticdl", "mine", None)]),
        ("claim_name=mine,mount_path=/elasticdl/", [("/elasticdl/", "mine", None)]),
        ("claim_name=mine,mount_path=/elasticdl/runs", [("/elasticdl/runs", "mine", None), OWN]),
    ],
)
def test_what_a_pod_sees_where(text, seen):
    assert mounted(text) == seen


def test_what_is_mounted_twice_is_one_volume():
    text = (
        "claim_name=c,mount_path=/1;host_path=/h,mount_path=/2;claim_name=c,mount_path=/3;"
        "host_path=/h,mount_path=/4;host_path=/h,type=Directory,mount_path=/5"
    )
    volumes, mounts = volumes_and_mounts("j", parse_volumes(text))
    assert [(volume.name, source(volume)) for volume in volumes[:-1]] == [
        ("elasticdl-j-volume-0", "c"),
        ("elasticdl-j-volume-1", ("/h", None)),
        ("elasticdl-j-volume-2", ("/h", "Directory")),
    ]
    assert len(mounts) == 6


def test_claims_can_be_written_to():
    volumes, mounts = volumes_and_mounts("j", parse_volumes("claim_name=c,mount_path=/c"))
    assert not volumes[0].persistent_volume_claim.read_only
    assert not mounts[0].read_only


def test_every_pod_of_the_job_has_them():
    blueprint = plan("--volume=host_path=/data,mount_path=/data")
    pods = [blueprint.master_pod(["python"]), blueprint.pod(child())]
    seen = [[mount.mount_path for mount in container(pod).volume_mounts] for pod in pods]
    assert seen == [["/data", SCRATCH]] * 2


SOURCES = st.sampled_from(
    [{"claim_name": "c"}, {"claim_name": "d"}, {"host_path": "/c"}, {"host_path": "/d"}]
)


@given(st.lists(SOURCES, max_size=8))
def test_whatever_is_mounted_each_source_is_one_volume_and_every_mount_has_one(sources):
    wanted = [Volume(mount_path=f"/{number}", **each) for number, each in enumerate(sources)]
    volumes, mounts = volumes_and_mounts("j", wanted)
    found = [source(volume) for volume in volumes]
    assert len(found) == len({str(each) for each in found}) == len({str(each) for each in sources}) + 1
    assert {mount.mount_path for mount in mounts} == {each.mount_path for each in wanted} | {SCRATCH}
    assert {mount.name for mount in mounts} == {volume.name for volume in volumes}
    kinds = [volume.host_path is not None for volume in volumes[:-1]]
    assert kinds == sorted(kinds)
