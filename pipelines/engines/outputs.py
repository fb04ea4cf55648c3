"""What a step has made, a line each, from what KFP's part in its process writes down of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elastic_runtime.observe import figures
from elasticdl_components.argo.ports import RESULT, RESULTS


def outputs(task: str, made: Mapping[str, Any]) -> Iterator[str]:
    """Its values and metrics, and where the rest is."""
    for name, value in made.get("parameterValues", {}).items():
        yield f"{task:<10} {_called(task, name)}: {value}"
    for name, listed in made.get("artifacts", {}).items():
        artifact = listed["artifacts"][0]
        yield f"{task:<10} {name}: {_from_here(artifact['uri'])}"
        if name == "metrics" and artifact.get("metadata"):
            yield f"{'':<10}   {_in_words(artifact['metadata'])}"


def _called(task: str, name: str) -> str:
    """As on Argo, where the one result of a step has a name."""
    step = re.sub(r"(-\d+)?(\(\d+\))*$", "", task.rpartition("/")[2]).replace("-", "_")
    return RESULTS.get(step, name) if name == RESULT else name


def _from_here(place: str) -> str:
    """A path of this folder without it."""
    return os.path.relpath(place) if Path(place).is_relative_to(Path.cwd()) else place


def _in_words(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_figure(value)}" for name, value in metrics.items())


def _figure(value: float) -> str:
    return figures.count(int(value)) if float(value).is_integer() else figures.figure(value, 4)
