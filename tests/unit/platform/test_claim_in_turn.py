"""A job's next master waits for the one before it to end, and for no other job's."""

import logging
import threading

import pytest

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.master import app
from elastic_runtime.platform.kubernetes.submission import VERDICTS
from elastic_runtime.platform.pods import EXIT_DRAINED
from elastic_runtime.platform.process import turn
from elastic_runtime.platform.process.claim import claim
from elastic_runtime.platform.process.turn import claim_in_turn
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.entry import outcome


def test_the_next_master_says_whom_it_waits_for_and_goes_on_when_that_one_has_ended(tmp_path, caplog):
    held = claim(tmp_path, "mine")
    listener = logging.Handler()
    listener.emit = lambda record: threading.Timer(0.2, held.release).start()
    logging.getLogger(turn.__name__).addHandler(listener)
    with caplog.at_level(logging.WARNING), claim_in_turn(tmp_path, "mine", seconds=90):
        logging.getLogger(turn.__name__).removeHandler(listener)
        with pytest.raises(InputError, match="'mine' is run by process"):
            claim(tmp_path, "mine")
    (said,) = caplog.messages
    assert "job 'mine' is run by process" in said
    assert said.endswith("waiting for its end, 90 s at most")


def test_another_jobs_master_is_not_waited_for(tmp_path):
    with claim(tmp_path, "other"), pytest.raises(InputError, match="'other' is run by process"):
        claim_in_turn(tmp_path, "mine", seconds=3600)


def test_who_waited_in_vain_takes_nothing_later(tmp_path):
    held = claim(tmp_path, "mine")
    with pytest.raises(ElasticError, match=r"has not ended within 0\.1 s"):
        claim_in_turn(tmp_path, "mine", seconds=0.1)
    held.release()
    with claim_in_turn(tmp_path, "mine", seconds=90), pytest.raises(InputError):
        claim(tmp_path, "mine")


def test_a_master_in_a_cluster_that_waited_in_vain_ends_without_a_verdict(tmp_path, monkeypatch, capsys):
    """So whoever follows the job starts the next one."""
    monkeypatch.setattr(app, "CLAIM_SECONDS", 0.1)
    volume, folder = f"--volume=host_path={tmp_path},mount_path={tmp_path}", tmp_path / "run"
    (tmp_path / "m.py").write_text(
        "def custom_model(): ...\ndef feed(): ...\ndef loss(): ...\ndef optimizer(): ...\n"
    )
    work = ["--job_name=mine", f"--model_def={tmp_path / 'm.py'}", f"--training_data={tmp_path}"]
    place = [volume, f"--run_dir={folder}", "--platform=kubernetes", "--image_name=i"]
    spec = parse("master", [*work, *place]).spec
    with claim(folder, "mine"):
        code = outcome(lambda: app.run(spec))
    assert code == EXIT_DRAINED
    assert code not in VERDICTS
    assert "the earlier master of job 'mine' has not ended within 0.1 s" in capsys.readouterr().err
