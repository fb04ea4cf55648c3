"""What an error means for the work it befell and for the worker it ends."""

import errno

import pytest

from elastic_runtime.data.recordio import Writer, read_range
from elastic_runtime.errors import ElasticError, InputError, Unavailable
from elastic_runtime.model.user_code import UserCodeError
from elastic_runtime.platform.pods import EXIT_ERROR, EXIT_OUT_OF_MEMORY
from elastic_runtime.worker import failure
from elastic_runtime.worker.failure import End, NotFoundHere
from elastic_runtime.worker.trainers.base import SnapshotLost


def raised(do, kind=ElasticError):
    with pytest.raises(kind) as caught:
        do()
    return caught.value


@pytest.fixture
def file(tmp_path):
    with Writer(str(tmp_path / "data")) as writer:
        for _ in range(100):
            writer.write(b"x" * 100)
    return tmp_path / "data"


def test_damage_and_what_does_not_fit_are_final(file):
    file.write_bytes(file.read_bytes()[:-50])
    assert failure.is_final(raised(lambda: read_range(str(file), 0, 10)))
    assert failure.is_final(InputError("its columns differ", where="a.csv"))
    assert failure.is_final(ElasticError("feed yielded nothing"))


@pytest.mark.parametrize(
    "what",
    [
        OSError(errno.ESTALE, "Stale file handle"),
        TimeoutError("no answer"),
        Unavailable("is away"),  # of a store whose package has errors of its own
    ],
)
def test_what_a_disk_or_a_store_does_not_do_now_it_may_do_later(file, monkeypatch, what):
    def refused(uri):
        raise what

    monkeypatch.setattr("elastic_runtime.data.storage.open_input", refused)
    problem = raised(lambda: read_range(str(file), 0, 10))
    assert failure.is_of_storage(problem)
    assert not failure.is_final(problem)


@pytest.mark.parametrize(
    "problem",
    [
        UserCodeError("ValueError: no"),
        SnapshotLost("none is kept"),
        NotFoundHere("no such file"),
        KeyError(1),
    ],
)
def test_what_may_go_well_next_time_or_elsewhere_is_not_final(problem):
    assert not failure.is_final(problem)
    assert not failure.is_of_storage(problem)


def test_a_worker_ends_for_good_only_by_what_would_end_the_next_one_too():
    assert failure.end_by(InputError("no such option")) == End("no such option", EXIT_ERROR, fatal=True)
    assert failure.end_by(NotFoundHere("there is no such folder", where="/mnt")) == End(
        "/mnt: there is no such folder"
    )
    unknown = failure.end_by(raised(lambda: {}[1], KeyError))
    assert (unknown.error, unknown.fatal) == ("KeyError: 1", False)
    assert "test_failure.py" in unknown.trace


@pytest.mark.parametrize("problem", [MemoryError("1 GiB"), RuntimeError("std::bad_alloc")])
def test_lack_of_memory_is_told_by_its_own_exit_code(problem):
    end = failure.end_by(problem)
    assert (end.code, end.fatal) == (EXIT_OUT_OF_MEMORY, False)
    assert end.error.startswith("out of memory: ")
