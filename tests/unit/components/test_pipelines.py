"""P1, as far as no engine is needed: pipelines compile by their own command, and so does that of the docs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PIPELINES = sorted(path for path in (ROOT / "pipelines").glob("[a-z]*.py") if path.stem != "command")


def run(script: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("script", PIPELINES, ids=lambda path: path.stem)
def test_p1_a_pipeline_compiles_for_kfp_wherever_it_is_called(script: Path, tmp_path: Path) -> None:
    ended = run(script, tmp_path, "--engine=none", "--param", "num_epochs=7")
    assert ended.returncode == 0, ended.stderr
    name = script.stem.replace("_", "-")
    spec = next(yaml.safe_load_all((tmp_path / "build" / f"{name}.kfp.yaml").read_text()))
    assert spec["pipelineInfo"]["name"] == name
    assert spec["root"]["inputDefinitions"]["parameters"]["num_epochs"]["defaultValue"] == 7


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("num_epoch=1", "did you mean 'num_epochs'"),
        ("num_epochs=one", "got 'one' (give Integer)"),
        ("num_epochs", "write --param name=value"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(word: str, said: str, tmp_path: Path) -> None:
    ended = run(ROOT / "pipelines" / "mnist.py", tmp_path, "--engine=none", f"--param={word}")
    assert ended.returncode == 2
    assert said in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_the_help_of_a_pipeline_names_what_can_be_set(tmp_path: Path) -> None:
    ended = run(ROOT / "pipelines" / "mnist.py", tmp_path, "--help")
    assert ended.returncode == 0, ended.stderr
    told = dict(re.findall(r"^(parameters|steps) of the KFP function: (.*)$", ended.stdout, re.M))
    assert told == {
        "parameters": "image_name, model_zoo, num_epochs, num_workers, source",
        "steps": "convert, train, evaluate, clean-up",
    }
    assert re.search(r"^parameters of the Hera workflow: .*volume", ended.stdout, re.M)
    assert not (tmp_path / "build").exists()


def test_the_pipeline_of_the_docs_compiles(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "components.md").read_text(), re.DOTALL)
    compiling = 'from kfp.compiler import Compiler\nCompiler().compile(digits, "digits.yaml")\n'
    script = tmp_path / "digits.py"
    script.write_text(code.partition("if __name__")[0] + compiling)
    ended = run(script, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "digits.yaml").exists()
