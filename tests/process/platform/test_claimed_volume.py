"""A job's run folder on a volume, of which a master that is cut off will not let go before it dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOLDER = """
import sys
from pathlib import Path
from elastic_runtime.platform.process.claim import claim
with claim(Path(sys.argv[1]), "mine"):
    print("claimed", flush=True)
    sys.stdin.read()
"""
MODEL = "def custom_model(): ...\ndef feed(): ...\ndef loss(): ...\ndef optimizer(): ...\n"


def test_the_next_master_gets_it_the_moment_the_one_before_is_killed(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODEL)
    master = [
        *(sys.executable, "-m", "elastic_runtime.master", "--job_name=mine", "--platform=kubernetes"),
        *(f"--model_def={tmp_path / 'm.py'}", f"--training_data={tmp_path}", "--image_name=i"),
        *(f"--volume=host_path={tmp_path},mount_path={tmp_path}", f"--run_dir={tmp_path / 'run'}"),
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path / "run"], **pipes)
    with holder:
        assert holder.stdout.readline() == "claimed\n"
        with subprocess.Popen(
            master, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as waiting:
            told = next(line for line in waiting.stderr if "'mine' is run by" in line)
            assert f"process {holder.pid} " in told
            assert told.endswith("waiting for its end, 60 s at most\n")
            assert waiting.poll() is None
            holder.kill()
            said = waiting.stderr.read()
    assert "a master with --platform=kubernetes runs in a pod, and this process is in none" in said
    assert waiting.returncode == 1
