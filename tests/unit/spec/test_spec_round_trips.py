"""A spec that travels as arguments or JSON arrives as it was, and its digest tells jobs apart."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elastic_runtime.errors import InputError
from elastic_runtime.spec import document
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.flags import flags
from elastic_runtime.spec.job import JobSpec

SYNTAX = {
    "job_name": st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True),
    "namespace": st.just("kubemaker"),
    "volume": st.just("host_path=/data,mount_path=/data;claim_name=c,mount_path=/c"),
    "node_selector": st.just("pool=train,zone=a"),
    "toleration": st.just("key=pool,value=train;key=gpu,operator=Exists"),
    "service_account": st.just("trainer"),
    "image_pull_secret": st.sampled_from(["a", "a,b.c"]),
    "envs": st.just("A=1,2,B=3"),
    "populate_env_names": st.just("MY_.*"),
    "worker_pod_priority": st.sampled_from(["0.5", "high", "low-priority"]),
    "master_pod_priority": st.just("high-priority"),
    "ps_pod_priority": st.just("high-priority"),
    "model_params": st.just("a=1; b=two"),
    "data_reader_params": st.just("columns=['x']"),
    **{
        f"{role}_resource_{bound}": st.just(value)
        for role in ("master", "worker", "ps")
        for bound, value in (("request", "cpu=1"), ("limit", "cpu=2,gpu=1"))
    },
    **{
        name: st.just("registry:5000/a/b:tag")
        for name in ("image_name", "worker_image", "ps_image", "base_image")
    },
    "docker_image_repository": st.just("registry/a/"),
    **{name: st.sampled_from(["s3://bucket/a", "gs://b/c"]) for name in ("checkpoint_dir", "output")},
}
FREE = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=12)
SYMBOLS = st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8})?", fullmatch=True)


def _values(flag):
    if flag.name in SYNTAX:
        return SYNTAX[flag.name]
    if flag.choices:
        return st.sampled_from(flag.choices)
    if flag.kind is bool:
        return st.booleans()
    if flag.kind is int:
        return st.integers(1, 60_000)
    if flag.kind is float:
        return st.floats(0.001, 1e9)
    return SYMBOLS if flag.default() else FREE


TAKEN = [flag for flag in flags(JobSpec) if "train" in flag.extra.takes]
NEEDED = ("job_name", "model_def", "training_data")
SPECS = st.fixed_dictionaries(
    {flag.name: _values(flag) for flag in TAKEN if flag.name in NEEDED},
    optional={flag.name: _values(flag) for flag in TAKEN if flag.name not in NEEDED},
)


@given(SPECS)
def test_a_spec_survives_arguments_and_json(values):
    try:
        spec = JobSpec(**values)
    except InputError as error:
        assume("contradicts" not in error.what and "more than" not in error.what)
        raise
    assert parse("train", spec.to_args()).spec == spec
    assert JobSpec.from_json(spec.to_json()) == spec
    assert JobSpec.from_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("evaluate", ["--validation_data=v", "--checkpoint_dir_for_init=c", "--job_name=j", "--model_def=m"]),
        ("predict", ["--prediction_data=p", "--checkpoint_dir_for_init=c", "--job_name=j", "--model_def=m"]),
        ("master", ["--training_data=d", "--job_name=j", "--model_def=m", "--port=0", "--num_workers=2"]),
        ("ps", ["--ps_id=2", "--master_addr=h:1", "--num_ps_pods=3", "--port=2222"]),
    ],
)
def test_each_command_gives_its_own_arguments_back(command, arguments):
    spec = parse(command, arguments).spec
    assert parse(command, spec.to_args(command)).spec == spec
    assert JobSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"num_worker": 3}', "did you mean 'num_workers'?"),
        ('{"num_workers": "many"}', "--num_workers: got 'many'"),
        ("{", "not a job description"),
        ("[]", "not a job description"),
    ],
)
def test_json_that_is_no_spec_is_refused_in_words(text, told):
    with pytest.raises(InputError) as error:
        JobSpec.from_json(text)
    assert told in str(error.value)


def test_a_digest_changes_with_the_work_and_not_with_who_does_it():
    spec = JobSpec(job_name="j", model_def="m", training_data="d")
    same = JobSpec(job_name="j", model_def="m", training_data="d", num_workers=7, checkpoint_steps=5)
    other = JobSpec(job_name="j", model_def="m", training_data="e", minibatch_size=32)
    assert spec.digest == same.digest != other.digest
    assert spec.differences(same) == ()
    assert spec.differences(other) == (
        "--training_data=d became e",
        "--minibatch_size=64 became 32",
        "--records_per_task=512 became 256",
    )


def test_nobody_changes_a_spec():
    with pytest.raises(ValueError, match="frozen"):
        JobSpec(job_name="j").num_workers = 3


def test_the_page_of_options_is_what_the_spec_says():
    assert document.PAGE.read_text(encoding="utf-8") == document.page()
