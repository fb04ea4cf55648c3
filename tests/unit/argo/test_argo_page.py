"""What `docs/argo.md` shows is what it says: both ways of writing the pipeline are the same pipeline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hera.workflows import Workflow

from components import argo

WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "w-"}}
PAGE = (Path(__file__).parents[3] / "docs" / "argo.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def tasks(workflow: dict[str, Any]) -> dict[str, Any]:
    """Each task: what it runs, after what, and with what."""
    (main,) = (t for t in workflow["spec"]["templates"] if t["name"] == "main")
    return {
        task["name"]: (
            task.get("template") or task["templateRef"]["template"],
            task.get("depends"),
            {p["name"]: p["value"] for p in task["arguments"].get("parameters", [])},
            {a["name"]: a["from"] for a in task["arguments"].get("artifacts", [])},
        )
        for task in main["dag"]["tasks"]
    }


def test_the_pipeline_in_python_is_the_one_without(capsys: pytest.CaptureFixture[str]) -> None:
    (plain, _), (python,) = blocks("yaml"), blocks("python")
    exec(compile(python, "docs/argo.md", "exec"), {})
    assert tasks(yaml.safe_load(capsys.readouterr().out)) == tasks(yaml.safe_load(plain))


def test_the_patch_of_a_whole_workflow_is_for_the_container_that_each_template_has() -> None:
    _, page = blocks("yaml")
    made = Workflow.from_dict({**WORKFLOW, **yaml.safe_load(page)})
    [patched] = yaml.safe_load(made.pod_spec_patch)["containers"]
    [own] = re.findall(r"'containers': \[{\s+'name': '(\w+)'", argo.train.pod_spec_patch)
    assert patched["name"] == own
    assert all(each["name"] and ("value" in each) != ("valueFrom" in each) for each in patched["env"])


def test_the_command_gives_options_that_there_are() -> None:
    given = re.findall(r"-p (\w+)=", blocks("sh")[1])
    assert given
    assert {*given} <= {port.name for port in argo.train.inputs}
