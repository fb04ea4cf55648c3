"""Master and worker started by hand, as the developer tutorial does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import ZOO, free_port

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def test_master_and_worker_by_hand_train_two_epochs_and_both_end_well(data: Path, tmp_path: Path) -> None:
    port = free_port()
    model = f"--model_file={ZOO / 'tiny.py'}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ELASTICDL")}
    master = [
        *(model, "--job_name=test", f"--training_data_dir={data}", f"--evaluation_data_dir={data}"),
        *("--records_per_task=100", "--num_epochs=2", "--checkpoint_steps=2", "--grads_to_wait=2"),
        *("--minibatch_size=10", "--codec_type=tf_example", "--log_level=INFO", f"--port={port}"),
    ]
    worker = ["--worker_id=1", model, f"--master_addr=localhost:{port}", "--log_level=INFO"]
    worker.append("--orphan_timeout=300")  # the master may take long to be there
    running = []
    for module, arguments in (("worker", worker), ("master", master)):  # either may be first
        with (tmp_path / f"{module}.txt").open("w") as output:
            command = [sys.executable, "-m", f"elastic_runtime.{module}", *arguments]
            running.append(
                subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)
            )
    try:
        codes = [process.wait(400) for process in running]
    finally:
        for process in running:
            process.kill()
    said = "".join((tmp_path / f"{module}.txt").read_text() for module in ("master", "worker"))
    assert codes == [0, 0], said
    assert "job test succeeded: 2 400 records in 2 epochs" in said
    assert "Evaluation metrics[v=" in said
