"""A step whose workers are processes in its own pod is told to end with the pod, and will be run again."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elastic_runtime.platform.pods import EXIT_DRAINED
from tests.process.job.harness import ZOO

STEP = """
import sys
from pathlib import Path

from elastic_runtime.steps import in_cluster
from elastic_runtime.steps.command import main

in_cluster.NAMESPACE_FILE = Path("namespace")
main(sys.argv[1:])
"""
SECONDS = 200


def told_to_end(folder: Path, data: Path, number: signal.Signals, **env: str) -> tuple[int, str]:
    """The exit code and the log of a step that waits for workers by hand, which need no TensorFlow."""
    (folder / "namespace").write_text("n")
    words = [
        *("train", "--job_name=j", "--num_workers=0", "--distribution_strategy=Local"),
        *(f"--{name}={folder / name}" for name in ("model", "metrics", "report", "pods")),
        *(f"--model_zoo={ZOO}", "--model_def=tiny.custom_model", f"--training_data={data}"),
    ]
    inherited = {name: value for name, value in os.environ.items() if name != "KUBERNETES_SERVICE_HOST"}
    step = subprocess.Popen(
        [sys.executable, "-c", STEP, *words],
        cwd=folder,
        env={**inherited, **env},
        stderr=subprocess.PIPE,
    )
    assert step.stderr is not None
    log = b""
    try:
        while b"0 of 0 workers" not in log:
            assert select.select([step.stderr], [], [], SECONDS)[0], log
            log += step.stderr.readline()
            assert step.poll() is None, log
        step.send_signal(number)
        log += step.communicate(timeout=SECONDS)[1]
    finally:
        step.kill()
        step.wait()
    return step.returncode, log.decode()


def test_in_a_pod_it_says_so_and_is_no_end_of_the_job(tmp_path: Path, data: Path) -> None:
    code, log = told_to_end(tmp_path, data, signal.SIGTERM, KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert code == EXIT_DRAINED, log
    assert log.splitlines()[-1].startswith("error: the step was told to end: job j stopped: "), log
    assert "stopped" in (tmp_path / "report").read_text()


@pytest.mark.parametrize(
    ("number", "env"),
    [(signal.SIGINT, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}), (signal.SIGTERM, {})],
    ids=["Ctrl-C", "on a laptop"],
)
def test_a_user_who_ends_it_ends_the_job(
    tmp_path: Path, data: Path, number: signal.Signals, env: dict[str, str]
) -> None:
    code, log = told_to_end(tmp_path, data, number, **env)
    assert code == 130, log
