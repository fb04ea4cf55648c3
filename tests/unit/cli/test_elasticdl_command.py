"""The command itself: quick to start, and every end has its exit code and one line."""

import os
import subprocess
import sys

import pytest

from elastic_runtime.cli.main import COMMANDS, main
from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.entry import outcome
from elastic_runtime.spec.flags import flags
from elastic_runtime.spec.job import JobSpec

TRAIN = ["--model_def=m", "--training_data=d"]
HEAVY = {"tensorflow", "keras", "kubernetes", "grpc", "numpy", "numba"}


def run(*argv, **options):
    return subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, timeout=240, check=False, **options
    )


def imported_by(*arguments):
    code = (
        "import sys; from elastic_runtime.cli.main import main\n"
        f"try: main({list(arguments)!r})\n"
        "finally: sys.stderr.write(' '.join(sys.modules))"
    )
    done = run("-c", code)
    assert done.returncode == 0
    return done.stdout, {name.partition(".")[0] for name in done.stderr.split()}


def end_of(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code, capsys.readouterr().err


def test_help_names_every_command_and_imports_next_to_nothing():
    out, modules = imported_by("--help")
    assert all(name in out for name in COMMANDS)
    assert not modules & {*HEAVY, "pydantic", "rich", "google"}


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "job"])
def test_the_help_of_a_command_imports_nothing_heavy(command):
    out, modules = imported_by(command, "--help")
    assert out.startswith(f"Usage: elasticdl {command} ")
    assert not modules & (HEAVY - ({"grpc"} if command == "job" else set()))


def test_without_a_command_the_help_is_shown(capsys):
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: elasticdl")


def test_the_module_is_the_same_command():
    assert run("-m", "elastic_runtime", "--version").stdout.startswith("elasticdl 1.")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["trian"], "error: unknown command 'trian' (did you mean 'train'?)\n"),
        (["--versoin"], "error: No such option '--versoin'. Did you mean '--version'?\n"),
        (["train", "--num_wokers=2"], "error: unknown option --num_wokers (did you mean --num_workers?)\n"),
        (
            ["train", "--num_workers=x", "--job_name=j", *TRAIN],
            "error: --num_workers: got 'x' (give a whole number >= 0 and <= 99999)\n",
        ),
        (["job", "lst"], "error: No such command 'lst'. Did you mean 'list'?\n"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, told, capsys):
    assert end_of(capsys, *arguments) == (2, told)


@pytest.mark.parametrize("flag", flags(JobSpec), ids=lambda flag: flag.name)
def test_a_bad_value_of_any_option_ends_with_2_and_one_line(flag, capsys):
    command = next((c for c in ("train", "predict") if c in flag.extra.takes), "train")
    data = {"train": ["--training_data=d"], "predict": ["--prediction_data=d", "--checkpoint_dir_for_init=c"]}
    code, err = end_of(capsys, command, "--job_name=j", "--model_def=m", *data[command], f"{flag.option}=\n")
    assert code == 2
    assert err.startswith("error: ")
    assert flag.option in err
    assert err.count("\n") == 1


def test_a_model_that_is_not_there_is_found_out_before_anything_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, err = end_of(capsys, "train", "--job_name=j", *TRAIN, "--log_level=ERROR")
    assert code == 2
    assert err.splitlines()[-1].startswith("error: --model_def: 'm': there is no m.py")
    assert not any(tmp_path.iterdir())


def test_a_job_with_an_image_is_not_run_here_where_there_is_no_cluster(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, err = end_of(capsys, "train", "--job_name=j", *TRAIN, "--image_name=i")
    assert code == 2
    assert "no cluster is configured" in err.splitlines()[-1]
    assert err.splitlines()[-1].endswith("or run on this machine: --platform=process)")


def test_ends_have_their_exit_codes(capsys):
    def raising(error):
        def body():
            raise error

        return body

    assert outcome(lambda: 7) == 7
    assert outcome(raising(InputError("wrong", where="--x", remedy="do y"))) == 2
    assert outcome(raising(ElasticError("two\nlines"))) == 1
    assert outcome(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "error: --x: wrong (do y)\nerror: two lines\ninterrupted\n"


def test_a_closed_pipe_is_no_error_message():
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-m", "elastic_runtime", "train", "--help"], stdout=writer, stderr=subprocess.PIPE
    ) as process:
        os.close(writer)
        assert process.communicate(timeout=240)[1] == b""
        assert process.returncode == 1


SHOW = (
    "import pathlib; from elastic_runtime.spec.entry import command_line; spec = command_line('train');"
    "print(pathlib.Path('/proc/self/cmdline').read_text().replace(chr(0), '|')); print(spec.to_json())"
)


@pytest.mark.parametrize(
    "name",
    [
        ["--job_name", "mnist"],
        ["--job-name=mnist"],
        ["--job_name=mnist"],
        ["--job_name=a", "--job_name=mnist"],
    ],
)
def test_however_it_was_typed_the_process_shows_its_job(name):
    done = run("-c", SHOW, *name, *TRAIN, "--training_data_dir=d")
    command_line, spec = done.stdout.splitlines()
    assert "--job_name=mnist" in command_line.split("|")
    assert JobSpec.from_json(spec) == parse("train", ["--job_name=mnist", *TRAIN]).spec
    assert done.stderr.count("--training_data_dir is now called --training_data") == 1
