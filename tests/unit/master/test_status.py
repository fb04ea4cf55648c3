"""What a job tells of itself each second, and what of it can be told from that."""

from elastic_runtime.cli.state import whole_ledger
from elastic_runtime.master import ledger
from elastic_runtime.master.job import TRAINING, Job
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.status import describe
from elastic_runtime.observe import events
from elastic_runtime.observe.history import History
from elastic_runtime.spec.job import JobSpec

SOURCES = [Source("a", 10), Source("b", 20, start=5), Source("a", 10, start=10)]


def a_job(folder, epochs):
    """40 records in shards of 10; all of these epochs are done, and one shard of the next is given out."""
    options = {"job_name": "j", "model_def": "m.py", "training_data": "d", "run_dir": str(folder)}
    options |= {"records_per_task": "10", "num_epochs": "0"}
    job = Job(JobSpec.make(options, []), lambda row: None)
    job.begin({TRAINING: SOURCES})
    for number in range(4 * epochs):
        job.tell(TRAINING, ledger.Ask("w", 0.0))
        job.tell(TRAINING, ledger.Finished("w", job.main.leases("w")[0], number + 1, 0.0))
    job.tell(TRAINING, ledger.Ask("w", 0.0))
    return job


def told(job):
    return describe(job, History(), pids={}, status="running", pace=0.0, loss=None)


def test_what_is_told_each_second_does_not_grow_with_the_epochs(tmp_path):
    reply = told(a_job(tmp_path, 1000))
    assert [(epoch.epoch, epoch.records_done) for epoch in reply.ledger] == [(1000, 40), (1001, 0)]
    assert (reply.epoch, reply.records_done) == (1001, 40_000)


def test_every_epoch_can_be_told_from_it(tmp_path):
    job = a_job(tmp_path, 5)
    job.tell(TRAINING, ledger.UndoAfter(18))  # the model went back into the fifth epoch
    whole = whole_ledger(told(job))
    assert [epoch.epoch for epoch in whole] == [1, 2, 3, 4, 5, 6]
    assert [epoch.records_done for epoch in whole] == [40, 40, 40, 40, 20, 0]
    for number, epoch in enumerate(whole):
        done = {s.source: [(i.start, i.end) for i in s.done] for s in epoch.sources}
        assert done == job.main.done_intervals(number)
        assert {s.source: s.records for s in epoch.sources} == {"a": 20, "b": 20}


def test_what_a_pod_waits_for_is_told_until_it_runs(tmp_path):
    history, w = History(), {"pod": "w", "role": "worker"}
    job = a_job(tmp_path, 0)

    def told_after(event):
        history.add(event)
        reply = describe(job, history, pids={}, status="running", pace=0.0, loss=None)
        return [(pod.state, pod.waits_for) for pod in reply.pods]

    assert told_after(events.PodStarted(time=1.0, **w)) == [("pending", "")]
    assert told_after(events.PodWaiting(time=2.0, detail="no room", **w)) == [("pending", "no room")]
    assert told_after(events.PodRunning(time=3.0, **w)) == [("running", "")]
