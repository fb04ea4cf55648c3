"""The part of a dataset that a step is to read, judged by what the step before it makes.

What `convert` is told in the same pipeline says which parts there will be; of all other datasets that is
known when they are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kfp.dsl.pipeline_channel import PipelineArtifactChannel

from elastic_runtime.steps.artifact import Folder, location
from elastic_runtime.steps.convert import parts_made

_DATASETS = {
    "split": ("dataset",),
    "training_split": ("training_dataset",),
    "validation_split": ("validation_dataset", "training_dataset"),
}
"""Of which input each names a part; of the second one, if there is no first."""

__all__ = ["Made", "check_parts", "parts_made"]


@dataclass(frozen=True, slots=True)
class Made:
    """A dataset of which no more is known than its parts."""

    parts: tuple[str, ...]


def check_parts(given: Mapping[str, Any]) -> None:
    """Refuse a part that there will not be, and none where there are some."""
    for split, datasets in _DATASETS.items():
        part = given.get(split, "")
        own, *others = (given.get(name) for name in datasets)
        dataset = own if own is not None or not part else next(iter(others), None)
        parts = _parts(dataset)
        if parts and isinstance(part, str) and "{{" not in part:
            location(Folder(split, {"splits": dict.fromkeys(parts, 0)}), part)


def _parts(dataset: Any) -> tuple[str, ...]:
    """Those that are known already."""
    if isinstance(dataset, Made):
        return dataset.parts
    if not isinstance(dataset, PipelineArtifactChannel) or dataset.task is None:
        return ()
    from . import convert  # a step like those that are judged here

    is_made_by_it = dataset.task.component_spec == convert.component_spec and dataset.name == "dataset"
    return parts_made(dataset.task.inputs) if is_made_by_it else ()
