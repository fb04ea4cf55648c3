"""One master for a folder; a refused start leaves nothing behind."""

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.platform.process.claim import claim


def test_a_second_claim_is_refused_with_the_first_ones_name(tmp_path):
    with claim(tmp_path / "run", "mine"), pytest.raises(InputError, match="'mine' is run by process"):
        claim(tmp_path / "run", "mine")
    with claim(tmp_path / "run", "mine"):
        pass


def test_who_is_refused_by_a_master_elsewhere_is_told_where(tmp_path, monkeypatch):
    monkeypatch.setenv("ARGO_POD_NAME", "w-train-1")
    with claim(tmp_path, "mine"):
        monkeypatch.setenv("ARGO_POD_NAME", "w-train-2")
        with pytest.raises(InputError, match=r"in w-train-1 since .*kubectl delete pod w-train-1") as refused:
            claim(tmp_path, "mine")
        assert "elasticdl job stop" not in str(refused.value)  # which reaches only processes of here


def test_bad_input_leaves_no_folder_that_looks_like_a_job(tmp_path):
    with pytest.raises(InputError), claim(tmp_path / "new" / "runs" / "mine", "mine"):
        raise InputError("no such data")
    assert list(tmp_path.iterdir()) == []
    with claim(tmp_path / "run", "mine"):
        pass


def test_bad_input_takes_nothing_from_the_job_beside_it(tmp_path):
    refused = claim(tmp_path / "runs" / "mine", "mine")
    (tmp_path / "runs" / "other").mkdir()
    with pytest.raises(InputError), refused:
        raise InputError("no such data")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]


def test_bad_input_takes_nothing_from_a_job_that_was_there(tmp_path):
    (tmp_path / "job.json").write_text("{}")
    with pytest.raises(InputError), claim(tmp_path, "mine"):
        raise InputError("other options")
    assert (tmp_path / "job.json").read_text() == "{}"


def test_a_failure_after_the_start_leaves_the_folder(tmp_path):
    with pytest.raises(RuntimeError), claim(tmp_path / "run", "mine"):
        raise RuntimeError
    assert (tmp_path / "run").is_dir()


def test_a_claim_of_a_folder_that_is_the_users_leaves_nothing_there(tmp_path):
    with claim(tmp_path, "mine", keep=False):
        pass
    assert list(tmp_path.iterdir()) == []
