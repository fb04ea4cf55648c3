"""`python pipelines/own_image.py` on this machine: the image is pushed, and what is in it is trained here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_images import BASE, Made

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.timeout(600)


def own_image(folder: Path, server: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The pipeline, with the models of `zoo`."""
    base = f"--param=base_image={server}/{BASE}"
    return subprocess.run(
        [sys.executable, ROOT / "pipelines" / "own_image.py", base, "--param=model_zoo=zoo", *words],
        cwd=folder,
        env=os.environ | {"KUBECONFIG": str(folder / "none")},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )


@pytest.mark.tensorflow
def test_the_image_is_pushed_and_its_models_are_trained_here(server: str, tmp_path: Path) -> None:
    own = tmp_path / "zoo" / "own"
    own.mkdir(parents=True)
    shutil.copy(ROOT / "model_zoo" / "mnist" / "mnist_functional_api.py", own / "digits.py")
    ended = own_image(
        tmp_path,
        server,
        f"--param=repository={server}/me/digits",
        "--param=model_def=own.digits.custom_model",
        "--set=train.num_workers=1",
        "--set=train.max_step=20",
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-5000:]
    told = {" ".join(name): value for *name, value in re.findall(r"^(\S+) +(\w+): (.*)$", ended.stdout, re.M)}
    made = Made(told["build-image image"])
    assert str(made.name) == f"{server}/me/digits@{made.digest}"
    assert {"model_zoo/own/digits.py"} == {name for name in made.files() if name.endswith(".py")}
    assert int(told["train steps"]) == 20
    assert re.search(r"^ +loss .*accuracy 0\.\d+", ended.stdout, re.M)


def test_where_the_build_fails_its_reason_is_told_and_nothing_is_trained(server: str, tmp_path: Path) -> None:
    ended = own_image(tmp_path, server, f"--param=repository={server}/me/digits")
    assert ended.returncode == 1
    told = r"^build-image +failed in [^,]*, zoo: there is no such folder$"
    assert re.search(told, ended.stderr, re.M), ended.stderr[-5000:]
    assert not re.search(r"^train +(running|failed)", ended.stderr, re.M)
