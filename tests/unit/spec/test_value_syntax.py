"""Volumes, resources, priorities, environments and parameters, as the tutorials write them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.errors import InputError
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.pairs import envs
from elastic_runtime.spec.params import parse_params
from elastic_runtime.spec.priorities import parse_worker_priority
from elastic_runtime.spec.resources import excess, limits, parse_resources, quantity
from elastic_runtime.spec.volumes import Volume, parse_volumes


@pytest.mark.parametrize(
    ("text", "volumes"),
    [
        ("", ()),
        (" ; ,", ()),
        ("host_path=/data,mount_path=/data", (Volume(host_path="/data", mount_path="/data"),)),
        ("claim_name=c1,mount_path=/path1", (Volume(claim_name="c1", mount_path="/path1"),)),
        (
            " claim_name = c1 , mount_path=/path1 ;; claim_name=c1,,mount_path=/path2,sub_path=/sub0;",
            (
                Volume(claim_name="c1", mount_path="/path1"),
                Volume(claim_name="c1", mount_path="/path2", sub_path="/sub0"),
            ),
        ),
        (
            "volume_name=data-volume,mount_path=/data,claim_name=fileserver-claim",
            (Volume(volume_name="data-volume", mount_path="/data", claim_name="fileserver-claim"),),
        ),
        (
            "host_path=/d,type=Directory,mount_path=/d",
            (Volume(host_path="/d", type="Directory", mount_path="/d"),),
        ),
    ],
)
def test_volumes(text, volumes):
    assert parse_volumes(text) == volumes


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("host_path=/data,mont_path=/data", "did you mean 'mount_path'?"),
        ("host_path=/data,host_path=/b,mount_path=/data", "'host_path' is given twice"),
        ("mount_path=/data", "needs one of claim_name and host_path"),
        ("host_path=/a,claim_name=c,mount_path=/data", "needs one of claim_name and host_path"),
        ("host_path=/data", "needs a mount_path"),
        ("host_path=/data,mount_path=data", "begins with '/'"),
        ("claim_name=c,mount_path=/a,type=Directory", "type goes with host_path only"),
        ("host_path=/d,type=Direktory,mount_path=/d", "did you mean 'Directory'?"),
        ("host_path=/a,mount_path=/x;host_path=/b,mount_path=/x", "two volumes are mounted at '/x'"),
        ("/data:/data", "is not of the form key=value"),
    ],
)
def test_a_volume_that_cannot_be_mounted_is_refused(text, names):
    with pytest.raises(InputError) as error:
        parse_volumes(text)
    assert names in str(error.value)


@pytest.mark.parametrize(
    ("text", "resources"),
    [
        ("", {}),
        ("cpu=0.2,memory=1024Mi", {"cpu": "0.2", "memory": "1024Mi"}),
        ("cpu=250m,memory=4G,disk=10Gi", {"cpu": "250m", "memory": "4G", "ephemeral-storage": "10Gi"}),
        (
            "cpu=1,memory=2048Mi,ephemeral-storage=5000Mi",
            {"cpu": "1", "memory": "2048Mi", "ephemeral-storage": "5000Mi"},
        ),
        ("gpu=1", {"nvidia.com/gpu": "1"}),
        ("amd.com/gpu=2", {"amd.com/gpu": "2"}),
        ("nvidia.com/mig-1g.5gb=3", {"nvidia.com/mig-1g.5gb": "3"}),
    ],
)
def test_resources(text, resources):
    assert parse_resources(text) == resources


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cpus=1", "did you mean 'cpu'?"),
        ("cpu=0100m", "cpu=0100m is not a number"),
        ("cpu=1e3", "is not a number"),
        ("cpu=-1", "is not a number"),
        ("memory=1024", "a whole number and a unit"),
        ("memory=0Mi", "a whole number and a unit"),
        ("memory=1.5Gi", "a whole number and a unit"),
        ("memory=12MB", "a whole number and a unit"),
        ("gpu=half", "is not a whole number"),
        ("cpu=1,cpu=2", "given twice"),
        ("disk=1Gi,ephemeral-storage=2Gi", "given twice"),
        ("gpu=1,nvidia.com/gpu=2", "given twice"),
        ("cpu", "not of the form key=value"),
    ],
)
def test_a_resource_that_kubernetes_would_refuse_is_refused(text, names):
    with pytest.raises(InputError) as error:
        parse_resources(text)
    assert names in str(error.value)


def test_a_missing_limit_is_the_request():
    assert limits("cpu=1,memory=1Gi", "") == {"cpu": "1", "memory": "1Gi"}
    assert limits("cpu=1", "cpu=2") == {"cpu": "2"}


def test_a_limit_may_be_none_at_all():
    assert limits("cpu=1,memory=1Gi", "none") == {}
    assert excess("cpu=1,memory=1Gi", "none") == ""
    assert JobSpec.check_each({"worker_resource_limit": "none"}) is None
    with pytest.raises(InputError, match="worker_resource_request"):
        JobSpec.check_each({"worker_resource_request": "none"})


def test_a_request_above_its_limit_is_told():
    assert excess("cpu=0.2,memory=1024Mi", "cpu=1,memory=2048Mi") == ""
    assert (
        excess("cpu=1,memory=3Gi", "cpu=1000m,memory=3221225K")
        == "memory is requested as 3Gi but limited to 3221225K"
    )
    assert quantity("1Gi") == 1024 * quantity("1024Ki") == 2**30
    assert quantity("250m") == quantity("0.25")


@pytest.mark.parametrize(
    ("text", "workers", "high"),
    [
        ("0.5", 10, {0, 1, 2, 8, 9}),
        ("high=0.5", 10, {0, 1, 2, 8, 9}),
        ("0.5", 1, {0}),
        ("0.07", 100, {0, 1, 2, 3, 97, 98, 99}),
        ("1", 3, {0, 1, 2}),
        ("0", 3, set()),
    ],
)
def test_a_fraction_of_the_workers_is_high_from_both_ends(text, workers, high):
    priority = parse_worker_priority(text)
    assert {index for index in range(workers) if priority.priority_of(index, workers) == "high"} == high
    assert priority.priority_of(workers + 5, workers) == "low"


@given(st.integers(0, 100), st.integers(1, 60))
def test_a_fraction_marks_no_fewer_workers_than_it_says_and_less_than_one_more(percent, workers):
    priority = parse_worker_priority(f"{percent / 100:.2f}")
    marked = sum(priority.priority_of(index, workers) == "high" for index in range(workers))
    assert 0 <= marked - percent * workers / 100 < 1


@pytest.mark.parametrize("name", ["", "high", "low", "low-priority", "system.critical"])
def test_any_priority_class_is_taken_for_workers(name):
    assert parse_worker_priority(name).priority_of(3, 5) == name


@pytest.mark.parametrize("text", ["1.5", "-0.1", "0.5.5", "High", "high priority", "high=", "low=0.5"])
def test_what_is_neither_a_class_nor_a_fraction_is_refused(text):
    with pytest.raises(InputError):
        parse_worker_priority(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("k1=v1,k2=v2", {"k1": "v1", "k2": "v2"}),
        ("HOSTS=a,b,c,NAME=x", {"HOSTS": "a,b,c", "NAME": "x"}),
        ("EMPTY=,B=2", {"EMPTY": "", "B": "2"}),
        ("A=1,", {"A": "1,"}),
    ],
)
def test_environments(text, found):
    assert envs(text) == found


@pytest.mark.parametrize("text", ["novalue", "a=b=c", "=v", "a=1,a=2", "1x=3", "a b=3"])
def test_an_environment_that_cannot_be_read_is_refused(text):
    with pytest.raises(InputError):
        envs(text)


_NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True)
_VALUES = st.text(st.characters(blacklist_characters="=", blacklist_categories=["Cc", "Cs", "Z"]), max_size=8)


@given(st.dictionaries(_NAMES, _VALUES.filter(lambda value: not value.endswith(",")), min_size=1))
def test_any_environment_without_equals_signs_comes_through(variables):
    assert envs(",".join(f"{name}={value}" for name, value in variables.items())) == variables


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a=1; b=2", {"a": 1, "b": 2}),
        ("a=1,b=two", {"a": 1, "b": "two"}),
        ('columns=["x", "y"]; rate=0.5;', {"columns": ["x", "y"], "rate": 0.5}),
        ("shuffle=true; n=None; s='q'; f=False", {"shuffle": True, "n": None, "s": "q", "f": False}),
        ("code=__import__('os').getpid()", {"code": "__import__('os').getpid()"}),
        ("deep=" + "(" * 500, {"deep": "(" * 500}),
    ],
)
def test_parameters_are_read_without_being_run(text, found):
    assert parse_params(text) == found


@pytest.mark.parametrize("text", ["a", "a=1;a=2", "1a=2", "a-b=1"])
def test_parameters_that_cannot_be_arguments_are_refused(text):
    with pytest.raises(InputError):
        parse_params(text)


@pytest.mark.parametrize(
    "parser", [parse_volumes, parse_resources, parse_worker_priority, envs, parse_params]
)
@given(text=st.text(max_size=40))
def test_any_text_is_read_or_refused_in_words(parser, text):
    with contextlib.suppress(InputError):
        parser(text)
