"""The step's `best_metric`, by which trainings are compared: of a metric that falls, the lowest value."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elastic_runtime.steps import Folder, job_outputs

FALLING = (
    *("loss", "mean_squared_error", "error_rate", "mse", "mae", "rmse", "msle", "MAPE", "perplexity"),
    *("binary_crossentropy", "kl_divergence", "categorical_hinge", "poisson", "logcosh", "log_cosh"),
)
RISING = ("accuracy", "auc", "cosine_similarity", "f1_score", "mean_io_u", "precision", "recall", "r2_score")
MOST = sys.float_info.max
Best = Callable[..., float]


@pytest.fixture
def best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Best:
    """Of a job whose metric had these values, or that had these losses."""

    def found(name: str = "", *values: float, losses: tuple[float | None, ...] = ()) -> float:
        evaluations = [SimpleNamespace(metrics={name: value}) for value in values]
        samples = [SimpleNamespace(time=time, loss=loss) for time, loss in enumerate(losses)]
        history: Any = SimpleNamespace(evaluations=evaluations, samples=samples)
        monkeypatch.setattr(job_outputs, "_history", lambda _: history)
        made = {each: Folder(str(tmp_path / each)) for each in ("model", "metrics", "report", "pods")}
        return job_outputs.JobOutputs(**made).best_metric

    return found


@pytest.mark.parametrize(
    ("name", "value"), [*((name, 1.0) for name in FALLING), *((name, 3.0) for name in RISING)]
)
def test_the_best_value_of_a_metric(name: str, value: float, best: Best) -> None:
    assert best(name, 2.0, 1.0, 3.0) == value
    assert best(name, math.nan, 2.0, 1.0, 3.0, math.inf) == value


@pytest.mark.parametrize("diverged", [math.nan, math.inf, -math.inf])
def test_a_model_that_has_diverged_is_worse_than_any_other(diverged: float, best: Best) -> None:
    assert best("loss", diverged, diverged) == best(losses=(1.0, diverged)) == MOST
    assert best("accuracy", diverged) == -MOST


def test_without_an_evaluation_the_last_loss_is_told(best: Best) -> None:
    assert best(losses=(0.5, 0.25, None)) == 0.25
    assert best(losses=(None,)) == best() == MOST
