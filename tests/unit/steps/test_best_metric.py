"""The step's `best_metric`, by which trainings are compared: of a metric that falls, the lowest value."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from elastic_runtime.steps import Folder, job_outputs

FALLING = (
    *("loss", "mean_squared_error", "error_rate", "mse", "mae", "rmse", "msle", "MAPE", "perplexity"),
    *("binary_crossentropy", "kl_divergence", "categorical_hinge", "poisson", "logcosh", "log_cosh"),
)
RISING = ("accuracy", "auc", "cosine_similarity", "f1_score", "mean_io_u", "precision", "recall", "r2_score")


@pytest.mark.parametrize(
    ("name", "best"), [*((name, 1.0) for name in FALLING), *((name, 3.0) for name in RISING)]
)
def test_the_best_value_of_a_metric(
    name: str, best: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations = [SimpleNamespace(metrics={name: value}) for value in (2.0, 1.0, 3.0)]
    monkeypatch.setattr(job_outputs, "_history", lambda _: SimpleNamespace(evaluations=evaluations))
    made = {each: Folder(str(tmp_path / each)) for each in ("model", "metrics", "report", "pods")}
    assert job_outputs.JobOutputs(**made).best_metric == best
