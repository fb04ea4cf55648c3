"""Every older name is renamed, translated, said to do nothing, or refused; none is ignored."""

from pathlib import Path

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.spec import aliases
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.flags import flags
from elastic_runtime.spec.job import JobSpec

OLD_COMMANDS = Path(__file__).parents[3] / "docs" / "from_the_old_commands.md"
TRAIN = ["--job_name=j", "--model_def=m", "--training_data=d"]
VALUES = {"model_def": "m", "training_data": "d", "num_ps_pods": "2"}


def train(*arguments):
    return parse("train", [*TRAIN, *arguments])


@pytest.mark.parametrize(("older", "name"), aliases.RENAMED.items())
def test_a_renamed_option_means_the_new_one_and_says_so_once(older, name):
    value = VALUES.get(name, "x")
    command, enough = (
        ("predict", ["--job_name=j", "--model_def=m", "--checkpoint_dir_for_init=c"])
        if name == "prediction_data"
        else ("train", TRAIN)
    )
    parsed = parse(command, [*enough, f"--{older}={value}"])
    assert str(getattr(parsed.spec, name)) == value
    assert parsed.notices.count(f"--{older} is now called --{name}") == 1


def test_old_and_new_name_must_agree():
    assert train("--training_data_dir=d").spec.training_data == "d"
    with pytest.raises(InputError, match="--training_data_dir means --training_data=e, but it is d already"):
        train("--training_data_dir=e")
    with pytest.raises(InputError, match="--dataset_fn means --feed=b, but it is a already"):
        train("--input_fn=a", "--dataset_fn=b")


@pytest.mark.parametrize("name", aliases.GONE)
def test_an_option_that_does_nothing_any_more_says_why(name):
    for typed in (f"--{name}", f"--{name}=false"):
        notices = [notice for notice in train(typed).notices if notice.startswith(f"--{name} ")]
        assert notices == [f"--{name} does nothing: {aliases.GONE[name]}"]


@pytest.mark.parametrize("name", aliases.REFUSED)
def test_what_is_no_longer_offered_is_refused_with_a_replacement(name):
    with pytest.raises(InputError) as error:
        train(f"--{name}=something")
    assert error.value.where == f"--{name}"
    assert error.value.remedy
    assert f"--{name} does nothing: there is no such thing" in train(f"--{name}=false").notices


def test_the_codec_is_the_models_business():
    assert any(
        "--codec_type=tf_example does nothing" in notice
        for notice in train("--codec_type=tf_example").notices
    )
    with pytest.raises(InputError, match="column buffers"):
        train("--codec_type=bytes")


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        (["--worker_cpu_request=100m"], "worker_resource_request", "cpu=100m,memory=4096Mi"),
        (
            ["--worker_cpu_limit=2", "--worker_memory_limit=8Gi"],
            "worker_resource_limit",
            "cpu=2,memory=8Gi",
        ),
        (
            ["--volume_name=v", "--mount_path=/data"],
            "volume",
            "claim_name=fileserver-claim,mount_path=/data,volume_name=v",
        ),
        (["--aux_params=disable_relaunch=True"], "relaunch_on_worker_failure", 0),
        (["--aux_params="], "relaunch_on_worker_failure", 1),
        (["--image_base=i"], "base_image", "i"),
        (["--image_base=i", "--model_zoo=/nowhere/at/all"], "image_name", "i"),
        (["--image_base=i", "--model_zoo=/nowhere/at/all", "--docker_image_prefix=p"], "base_image", "i"),
    ],
)
def test_translated_options(typed, name, value):
    parsed = train(*typed)
    assert getattr(parsed.spec, name) == value
    older = typed[0].partition("=")[0]
    assert sum(older in notice for notice in parsed.notices) == 1


@pytest.mark.parametrize(
    "typed", ["--volume_name=v", "--mount_path=/x", "--aux_params=x=1", "--worker_cpu_request=lots"]
)
def test_translated_options_are_checked_like_others(typed):
    with pytest.raises(InputError):
        train(typed)


def test_no_name_is_both_old_and_new():
    older = [*aliases.RENAMED, *aliases.GONE, *aliases.REFUSED, *aliases.TRANSLATED]
    assert len(set(older)) == len(older)
    assert not set(older) & {flag.name for flag in flags(JobSpec)}


def test_the_page_of_old_commands_names_every_older_option():
    page = OLD_COMMANDS.read_text(encoding="utf-8")
    older = {*aliases.RENAMED, *aliases.GONE, *aliases.REFUSED, *aliases.TRANSLATED}
    assert not {name for name in older if f"`--{name}" not in page}
