"""What a job of AllReduce leaves is of no strategy: its checkpoints go on in any, and those of any in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from together import Together

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_a_model_goes_from_strategy_to_strategy_by_checkpoints(
    train: Callable[..., Together], tmp_path: Path, data: Path
) -> None:
    from harness import Run

    output = tmp_path / "model"
    first = train(
        "--num_workers=2", "--checkpoint_steps=10", f"--output={output}", model="normalized", pace=0
    )
    summary = first.assert_right_end()
    assert list(output.rglob("*.keras"))
    newest = first.checkpoints / f"version-{summary['last_checkpoint']}"
    for strategy, workers in {"ParameterServerStrategy": 1, "AllreduceStrategy": 2, "Local": 1}.items():
        version = int(newest.name.removeprefix("version-"))
        folder = tmp_path / f"after-{version}"
        folder.mkdir()
        options = (f"--distribution_strategy={strategy}", f"--checkpoint_dir_for_init={newest}")
        more = (f"--num_workers={workers}", "--checkpoint_steps=10")
        run = Run(folder, data, *options, *more, model="normalized")
        try:
            summary = run.start().assert_right_end()
        finally:
            run.close()
        assert f"the model is that of {newest}: version {version}, 0 records" in run.text()
        assert summary["version"] > version
        newest = run.checkpoints / f"version-{summary['last_checkpoint']}"
