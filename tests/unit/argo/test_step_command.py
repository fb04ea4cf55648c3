"""A step as a command line: `python -m elastic_runtime.steps STEP --name=value ...`."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from elastic_runtime.steps.command import KEPT, STEPS, Kept, main

EVALUATES = ("model", "dataset", "metrics", "classification", "report")


@pytest.fixture
def last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Kubernetes looks for what a container had to say."""
    file = tmp_path / "termination-log"
    file.touch()
    monkeypatch.setattr(importlib.import_module("elastic_runtime.steps.carry_out"), "LAST_WORDS", file)
    return file


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no step is named"),
        (["trian"], "did you mean 'train'?"),
        (["convert", "--format"], "write --name=value"),
        (["convert", "mnist"], "write --name=value"),
        (["convert", "--fromat=mnist"], "did you mean '--format'?"),
        (["convert", "--format=mnist", "--format=csv"], "--format: is given twice"),
        (["convert", "--format=mnist"], "not given: --dataset, --samples"),
        (["convert", "--dataset=d", "--samples=s", "--seed=1.5"], "--seed: got '1.5' (give a whole number)"),
        (
            ["clean_up", "--job_name=j", "--remove_files=yes"],
            "--remove_files: got 'yes' (give true or false)",
        ),
        (
            ["clean_up", "--job_name= "],
            "job_name: no job is named (give the job_name that the step train was",
        ),
        (
            [
                "build_image",
                "--repository=r.local/x",
                "--model_zoo=/z",
                "--base_image=b",
                "--platform=linux/arm46",
            ],
            "unknown platform 'linux/arm46' (did you mean 'linux/arm64'?)",
        ),
        (["build_image", "--repository=r.local/x", "--base_image=b"], "model_zoo: no model zoo is named"),
        (["convert", "--dataset=d", "--samples=s", "--format=mnits"], "did you mean 'mnist'?"),
        (
            ["predict", "--model=m", "--dataset=d", "--predictions=p", "--records_per_file=0"],
            "records_per_file=0 is less than 1",
        ),
        (
            ["evaluate", *map("--{}=x".format, EVALUATES), "--minibatch_size=-1"],
            "--minibatch_size: got '-1' (give a whole number >= 1)",
        ),
        (["train", "--namespace=n"], "unknown option --namespace"),
        (["train", "--task_config=x"], "unknown option --task_config"),
    ],
)
def test_a_wrong_command_line_is_one_clear_error(words, said, last_words, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert said in last_words.read_text()


def test_a_folder_that_holds_something_else_than_a_job_is_not_removed(tmp_path, capsys) -> None:
    words = ["clean_up", "--job_name=j", f"--run_dir={tmp_path}", "--remove_files=true"]
    (tmp_path / "thesis").touch()
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert f"run_dir={tmp_path}: holds no job, and stays" in capsys.readouterr().err
    assert (tmp_path / "thesis").exists()
    (tmp_path / "job.json").touch()
    main(words)
    assert not tmp_path.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--help"], STEPS), (["-h"], STEPS), (["convert", "--help"], ("--format", "--dataset"))],
)
def test_help_lists_the_steps_or_the_options_of_one_and_is_no_error(words, told, capsys) -> None:
    main(words)
    said = capsys.readouterr()
    assert all(name in said.out for name in told)
    assert said.err == ""


def test_outputs_are_where_they_are_asked_for_and_what_is_known_of_them_comes_along(tmp_path) -> None:
    dataset, samples, result = tmp_path / "out" / "dataset", tmp_path / "out" / "s.md", tmp_path / "out" / "n"
    places = [f"--dataset={dataset}", f"--samples={samples}", f"--result={result}"]
    main(["convert", *places, "--format=mnist", "--source=", "--source_dataset=/no/such/place"])
    assert result.read_text() == "7000"
    assert "7 000" in samples.read_text()
    assert Kept(str(dataset)).metadata["splits"] == {"train": 6000, "test": 1000}


def test_an_output_that_was_put_elsewhere_is_found_there(tmp_path) -> None:
    dataset, place = tmp_path / "dataset", tmp_path / "volume" / "mnist"
    main(
        [
            "convert",
            f"--dataset={dataset}",
            f"--samples={tmp_path / 's.md'}",
            "--format=mnist",
            f"--output={place}",
        ]
    )
    assert [file.name for file in dataset.iterdir()] == [KEPT]
    found = Kept(str(dataset))
    assert found.uri == str(place)
    assert found.metadata["records"] == 7000


def test_what_a_step_did_not_write_is_refused(tmp_path) -> None:
    (tmp_path / KEPT).write_text("[1, 2]")
    with pytest.raises(SystemExit) as ended:
        main(["predict", f"--model={tmp_path}", f"--dataset={tmp_path}", f"--predictions={tmp_path}"])
    assert ended.value.code == 2


def test_an_artifact_of_which_nothing_is_known_stays_as_it_is(tmp_path) -> None:
    Kept(str(tmp_path)).keep()
    assert list(tmp_path.iterdir()) == []


def test_an_artifact_without_an_address_keeps_only_its_facts(tmp_path) -> None:
    made = Kept(str(tmp_path / "model"))
    made.metadata["version"] = 7
    made.keep()
    assert json.loads((tmp_path / "model" / KEPT).read_text()) == {"metadata": {"version": 7}}
