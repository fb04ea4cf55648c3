"""How options are typed, and how every mistake is told."""

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.flags import COMMANDS, flags
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.usage import usage

ENOUGH = {
    "train": ["--job_name=j", "--model_def=m", "--training_data=d"],
    "evaluate": ["--job_name=j", "--model_def=m", "--validation_data=d", "--checkpoint_dir_for_init=c"],
    "predict": ["--job_name=j", "--model_def=m", "--prediction_data=d", "--checkpoint_dir_for_init=c"],
    "master": ["--job_name=j", "--model_def=m", "--training_data=d"],
    "worker": ["--worker_id=0", "--master_addr=localhost:50001"],
    "ps": ["--ps_id=0", "--master_addr=localhost:50001"],
}
ALL = [(command, flag) for command in COMMANDS for flag in flags(JobSpec) if command in flag.extra.takes]


def refusal(command, *arguments):
    with pytest.raises(InputError) as error:
        parse(command, [*ENOUGH[command], *arguments])
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_required_is_enough_and_each_of_it_is_needed(command):
    parse(command, ENOUGH[command])
    for missing in ENOUGH[command]:
        with pytest.raises(InputError, match="needs"):
            parse(command, [argument for argument in ENOUGH[command] if argument != missing])


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (["--use_async"], True),
        (["--use_async", "--num_epochs=1"], True),
        (["--use_async", "false", "--num_epochs=1"], False),
        (["--use-async"], True),
        *[([f"--use_async={word}"], True) for word in ("true", "True", "YES", "t", "y", "1")],
        *[([f"--use_async={word}"], False) for word in ("false", "FALSE", "no", "f", "N", "0")],
    ],
)
def test_switches(typed, value):
    assert parse("train", [*ENOUGH["train"], *typed]).spec.use_async is value


@pytest.mark.parametrize("word", ["maybe", "tru", "2", "", "on"])
def test_a_switch_takes_no_other_word(word):
    assert refusal("train", f"--use_async={word}") == f"--use_async: got {word!r} (give true or false)"


def _bad_value(flag):
    if flag.choices or flag.kind in (bool, int, float):
        return "zzz"
    return "two\nlines"


@pytest.mark.parametrize(("command", "flag"), ALL, ids=lambda part: getattr(part, "name", part))
def test_every_option_refuses_a_bad_value_by_name(command, flag):
    assert refusal(command, f"{flag.option}={_bad_value(flag)}").startswith(f"{flag.option}: ")


@pytest.mark.parametrize(("command", "flag"), ALL, ids=lambda part: getattr(part, "name", part))
def test_every_option_but_a_switch_needs_a_value(command, flag):
    if flag.is_switch:
        assert getattr(parse(command, [*ENOUGH[command], flag.option]).spec, flag.name) is True
    else:
        assert refusal(command, flag.option).startswith(f"{flag.option} needs a value")


@pytest.mark.parametrize(("command", "flag"), ALL, ids=lambda part: getattr(part, "name", part))
def test_a_typing_error_in_any_option_points_to_it(command, flag):
    wrong = flag.option[:-2] + flag.option[-1] + flag.option[-2] + "x"
    assert refusal(command, f"{wrong}=1") == f"unknown option {wrong} (did you mean {flag.option}?)"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["--zzzz=1"], "unknown option --zzzz (`elasticdl train --help` shows all)"),
        (["--ps_id=1"], "train does not take --ps_id (it is an option of ps)"),
        (["extra"], "unexpected argument 'extra' (options are written --name=value)"),
        (["-num_workers", "2"], "unexpected argument '-num_workers' (did you mean --num_workers?)"),
        (["--"], "unexpected argument '--' (options are written --name=value)"),
        (["--num_workers=-1"], "--num_workers: got '-1' (give a whole number >= 0 and <= 99999)"),
        (["--evaluation_steps=1_0"], "--evaluation_steps: got '1_0' (give a whole number >= 0)"),
        (["--num_epochs=1.0"], "--num_epochs: got '1.0' (give a whole number)"),
        (["--port=70000"], "--port: got '70000' (give a whole number >= 0 and <= 65535)"),
        (["--lease_timeout=nan"], "--lease_timeout: got 'nan' (give a number > 0)"),
        (["--lease_timeout=inf"], "--lease_timeout: got 'inf' (give a number > 0)"),
        (
            ["--image_pull_policy=Nevr"],
            "--image_pull_policy: got 'Nevr' "
            "(give one of Always, IfNotPresent, Never; did you mean 'Never'?)",
        ),
        (["--loss=my loss"], "--loss: got 'my loss' (give a name, or module.name)"),
        (["--loss="], "--loss: got '' (give a name, or module.name)"),
        (["--namespace=My_Space"], "--namespace: got 'My_Space' (give lower-case letters, digits and '-')"),
        (
            ["--volume=host_path=/a,mont_path=/b"],
            "--volume: unknown key 'mont_path' (did you mean 'mount_path'?)",
        ),
    ],
)
def test_mistakes_are_told_with_what_would_be_right(typed, told):
    assert refusal("train", *typed) == told


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":50001", "h:0", "h:65536", "a b:1", "@"])
def test_an_address_is_host_and_port_or_a_file(address):
    assert refusal("worker", f"--master_addr={address}").startswith("--master_addr: ")


@pytest.mark.parametrize("name", ["Test", "-a", "a-", "a_b", "a.b", "", "a" * 41])
def test_a_job_name_must_fit_into_pod_names(name):
    with pytest.raises(InputError):
        parse("train", [f"--job_name={name}", "--model_def=m", "--training_data=d"])
    parse("train", ["--job_name=" + "a" * 40, "--model_def=m", "--training_data=d"])


def test_words_may_be_written_in_any_case():
    spec = parse("train", [*ENOUGH["train"], "--log_level=debug", "--distribution_strategy=local"]).spec
    assert (spec.log_level, spec.distribution_strategy) == ("DEBUG", "Local")
    assert parse("train", [*ENOUGH["train"], "--distribution_strategy="]).spec.distribution_strategy == (
        "ParameterServerStrategy"
    )


def test_an_option_given_twice_counts_once_and_is_told():
    parsed = parse("train", [*ENOUGH["train"], "--num_workers=2", "--num_workers=2", "--num_workers=3"])
    assert parsed.spec.num_workers == 3
    assert [n for n in parsed.notices if "twice" in n] == [
        "--num_workers is given twice: 3 is used, 2 is not"
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_names_exactly_what_it_takes(command):
    text = usage(command)
    shown = {line.split()[0] for line in text.splitlines() if line.startswith("  --")}
    assert shown == {flag.option for flag in flags(JobSpec) if command in flag.extra.takes}
