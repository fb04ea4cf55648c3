"""The component, in the engine that needs no cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from small_images import BASE, Made

from components import build_image
from components.image import IMAGE

ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys
from components import build_image
from kfp import local
local.init(local.SubprocessRunner(use_venv=False), pipeline_root="outputs")
print(f"made {build_image(**json.loads(sys.argv[1])).output}")
"""


def step(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(inputs)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_step_gives_the_image_to_the_next(server: str, zoo: Path, tmp_path: Path) -> None:
    done = step(
        tmp_path, base_image=f"{server}/{BASE}", repository=f"{server}/steps/model", model_zoo=str(zoo)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = Made(done.stdout.partition("made ")[2].strip())
    assert made.name.repository == "steps/model"
    assert "model_zoo/mnist/model.py" in made.files()


def test_what_a_user_can_mend_is_the_last_line_of_its_log(server: str, zoo: Path, tmp_path: Path) -> None:
    done = step(tmp_path, base_image=f"{server}/nowhere", repository=f"{server}/x", model_zoo=str(zoo))
    assert done.returncode != 0
    lines = [line.strip() for line in done.stdout.splitlines() if "nowhere" in line]
    assert lines[-1].startswith(f"error: {server}/nowhere:latest: there is no image ")


def test_the_base_image_is_that_of_the_step_unless_another_is_named() -> None:
    assert build_image.component_spec.inputs["base_image"].default == IMAGE
