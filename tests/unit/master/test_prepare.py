"""What a master finds out of its data before the job begins."""

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.master.job import LISTING, TRAINING
from elastic_runtime.master.prepare import JOURNAL_FILE, begin_anew_once, can_run, find_sources
from elastic_runtime.spec.job import JobSpec

PLACE = "hdfs://somewhere/train"  # which takes a package that nothing of ours needs


@pytest.fixture
def a_spec(tmp_path):
    (tmp_path / "m.py").write_text("def custom_model(): ...\n")
    named = {
        "job_name": "j",
        "model_zoo": str(tmp_path),
        "model_def": "m.custom_model",
        "training_data": PLACE,
    }
    return lambda **options: JobSpec.make(named | options, [])


def test_data_for_which_a_masters_image_lacks_the_package_are_listed_by_a_worker(a_spec):
    found = find_sources(a_spec(platform="kubernetes", image_name="i"))
    assert [(source.name, source.records) for source in found[LISTING]] == [(TRAINING, 1)]


ELSEWHERE = {"platform": "kubernetes", "image_name": "small", "model_zoo": "/not/in/this/image"}


def test_a_model_that_is_in_the_workers_image_only_is_checked_there_and_so_are_the_data(a_spec):
    spec = a_spec(**ELSEWHERE, worker_image="with/models", training_data="/data")
    can_run(spec)
    assert [source.name for source in find_sources(spec)[LISTING]] == [TRAINING]


@pytest.mark.parametrize("worker_image", ["", "small"])
def test_a_model_that_no_image_of_the_job_can_have_is_refused_at_once(a_spec, worker_image):
    spec = a_spec(**ELSEWHERE, worker_image=worker_image)
    with pytest.raises(InputError, match="there is no folder /not/in/this/image"):
        can_run(spec)


def test_a_name_that_is_wrong_is_refused_at_once_where_the_model_is_in_the_masters_image_too(a_spec):
    spec = a_spec(platform="kubernetes", image_name="small", worker_image="with/models", loss="no_such")
    with pytest.raises(InputError, match="no no_such in"):
        can_run(spec)


def test_here_workers_lack_it_as_well(a_spec):
    with pytest.raises(InputError, match="hdfs:// needs a package that is not installed"):
        find_sources(a_spec(platform="process"))


def test_what_is_on_a_volume_is_forgotten_once_for_a_wish_that_all_masters_of_a_job_bear(tmp_path):
    left, kept = tmp_path / JOURNAL_FILE, tmp_path / "notes.txt"
    for path in (left, kept):
        path.touch()
    begin_anew_once(tmp_path, "")
    assert left.exists()
    begin_anew_once(tmp_path, "first")
    assert not left.exists()
    left.touch()
    begin_anew_once(tmp_path, "first")
    assert left.exists()
    begin_anew_once(tmp_path, "second")
    assert not left.exists()
    assert kept.exists()
