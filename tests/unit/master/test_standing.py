"""What is measured of a job while it goes on, and who is shown it."""

import pytest

from elastic_runtime.master.job import Job, Outcome
from elastic_runtime.master.narrator import Narrator
from elastic_runtime.observe import events
from elastic_runtime.spec.job import JobSpec


def a_narrator(folder, display=None):
    """Of a new master."""
    given = {"job_name": "j", "model_def": "m.py", "training_data": "d", "run_dir": str(folder)}
    spec = JobSpec.make(given, [])
    narrator = Narrator(spec, folder, Job(spec, lambda row: None), display)
    narrator.begin()
    return narrator


@pytest.fixture
def told(tmp_path):
    """`told(report, ...)` is the training time on record after these reports of workers."""
    narrator = a_narrator(tmp_path)

    def tell(*reports):
        for worker, seconds, records in reports:
            narrator.standing.worked(worker, seconds, records)
        narrator.standing.sample()
        samples = [e for e in events.read_events(tmp_path / events.FILE_NAME) if isinstance(e, events.Sample)]
        return samples[-1].training_seconds

    tell.narrator = narrator
    return tell


def test_training_time_is_what_workers_spent_in_finished_steps(told):
    told.narrator.joined("w", again=False)
    assert told(("w", 5.0, 100)) == 5.0


def test_of_a_worker_that_an_earlier_master_knew_only_what_is_new_counts(told):
    told.narrator.joined("w", again=True)
    assert told(("w", 500.0, 10_000)) == 0.0


def test_a_worker_whose_connection_broke_is_not_counted_anew(told):
    told.narrator.joined("w", again=False)
    told(("w", 5.0, 100))
    told.narrator.joined("w", again=True)
    assert told(("w", 5.0, 100)) == 5.0


def test_a_terminal_that_goes_away_takes_nothing_with_it_but_the_live_view(tmp_path, caplog):
    tried = []

    def display(state):
        tried.append(state)
        raise OSError("the terminal is gone")

    narrator = a_narrator(tmp_path, display=display)
    narrator.standing.sample()
    narrator.end(Outcome("succeeded"))
    assert len(tried) == 1
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "the live view ends, and the log goes on: the terminal is gone"
    ]
    assert isinstance(list(events.read_events(tmp_path / events.FILE_NAME))[-1], events.JobEnded)
