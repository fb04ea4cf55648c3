"""Model modules of every age: what older contracts shaped otherwise is brought into today's shape or refused.

Nothing is guessed: where the order of arguments changed and the names of the parameters show the old one,
that is an error, for swapping labels and predictions would train, silently, on the wrong thing.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elastic_runtime.errors import InputError

_OUTPUTS = {"output", "outputs", "prediction", "predictions", "logits", "y_pred"}
_LABELS = {"label", "labels", "y_true", "targets"}


def any_feed(feed: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """A `feed` or `dataset_fn` that takes the dataset, then perhaps the mode, then perhaps the metadata."""
    parameters = inspect.signature(feed).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return feed
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    if not positional or len(required) > 3:
        what = f"cannot call {feed.__name__}{inspect.signature(feed)}"
        raise InputError(what, where=str(path), remedy="it must be feed(dataset, mode, metadata)")
    if len(positional) >= 3:
        return feed
    count = len(positional)
    return lambda dataset, mode, metadata: feed(*(dataset, mode, metadata)[:count])


def labels_first(function: Callable[..., Any], where: str) -> Callable[..., Any]:
    """The function itself, unless its parameters are named in the order of before November 2019."""
    try:
        names = [name.lower() for name in inspect.signature(function).parameters][:2]
    except (TypeError, ValueError):
        return function
    if len(names) == 2 and names[0] in _OUTPUTS and names[1] in _LABELS:
        what = f"takes ({', '.join(names)}), the order of before November 2019"
        raise InputError(what, where=where, remedy="swap its parameters: (labels, predictions)")
    return function


def scheduler_callback(schedule: Callable[[int], float]) -> Any:
    """The callback that does what a module's `learning_rate_scheduler(version)` did."""
    return importlib.import_module("elastic_runtime.layers").LearningRateScheduler(schedule)
