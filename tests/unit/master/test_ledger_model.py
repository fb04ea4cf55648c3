"""Whatever befalls a job, every record of every epoch is done exactly once, and nothing waits for ever.

Hypothesis plays thousands of short jobs against a model that is too simple to be wrong: a dictionary of
what was accepted. Each job ends with its workers let work in peace, which must finish it.
"""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_runtime.master.ledger import (
    Accepted,
    Ask,
    Expire,
    Failed,
    Finished,
    GivenBack,
    Granted,
    Ledger,
    NoWorkEver,
    NoWorkNow,
    Progress,
    Refused,
    Requeued,
    Resumed,
    RollBack,
    Source,
    UndoAfter,
    WorkerLost,
    changes,
    decode,
    encode,
)

WORKERS = ("w0", "w1", "w2")
SOURCES = (Source("a", 25), Source("b", 7, start=100), Source("empty", 0), Source("c", 31))
SHARDS = 3 + 1 + 4


class Job:
    """A ledger with its journal, its workers as they see themselves, and the model."""

    def __init__(self, epochs, seed):
        self.options = {"records_per_shard": 10, "epochs": epochs, "seed": seed, "max_failures": 10**6}
        self.epochs = epochs
        self.ledger = Ledger(SOURCES, **self.options)
        self.snapshot, self.rows = json.dumps(self.ledger.state()), []
        self.done = {}  # (epoch, shard): version
        self.held = {worker: [] for worker in WORKERS}
        self.old = []  # leases that are nobody's any more
        self.accepted = []  # the last accepted of each worker, while it may be repeated
        self.checkpoints = [(0, json.dumps(self.ledger.state_at(0)))]
        self.version, self.now = 1, 0

    def tell(self, event):
        effects = self.ledger.handle(event)
        if changes(effects):
            self.rows.append(json.dumps(encode(event)))
        for effect in effects:
            if isinstance(effect, Requeued):
                self.held[effect.worker].remove(effect.lease)
                self.old.append(effect.lease)
        sizes = (self.ledger.shards[shard].records for _, shard in self.done)
        assert self.ledger.records_done == sum(sizes)
        return effects

    def play(self, move, worker, number):
        self.now += number
        MOVES[move](self, worker, number)

    def ask(self, worker, number):
        answer = self.tell(Ask(worker, self.now, serial=number))[0]
        if isinstance(answer, Granted) and answer.lease not in self.held[worker]:
            assert all(answer.lease[:2] != lease[:2] for held in self.held.values() for lease in held)
            assert answer.lease[:2] not in self.done
            self.held[worker].append(answer.lease)
        return answer

    def finish(self, worker, number):
        if not self.held[worker]:
            return
        lease = self.held[worker].pop(number % len(self.held[worker]))
        self.version += number % 3
        self.done[lease[:2]] = self.version
        assert self.tell(Finished(worker, lease, self.version, self.now))[0].lease == lease
        self.accepted = [pair for pair in self.accepted if pair[0] != worker] + [(worker, lease)]

    def report_late(self, worker, number):
        if self.old:
            lease = self.old[number % len(self.old)]
            assert isinstance(self.tell(Finished(worker, lease, self.version, self.now))[0], Refused)

    def report_again(self, worker, number):
        for name, lease in self.accepted:
            answer = self.tell(Finished(name, lease, self.version + number, self.now))[0]
            assert isinstance(answer, Accepted)
            assert answer.duplicate

    def fail(self, worker, number):
        if self.held[worker]:
            self.tell(Failed(worker, self.held[worker][0], "bad luck", False, self.now))

    def give_back(self, worker, number):
        if self.held[worker]:
            self.tell(GivenBack(worker, self.held[worker][-1], number, self.now))

    def lose(self, worker, number):
        self.accepted = [pair for pair in self.accepted if pair[0] != worker]
        self.tell(WorkerLost(worker))
        assert not self.held[worker]

    def expire(self, worker, number):
        for late in self.ledger.overdue(self.now + 100 * number):
            self.tell(Expire(late))
            assert not self.held[late]

    def progress(self, worker, number):
        if self.held[worker]:
            self.tell(Progress(worker, self.held[worker][0], self.now))

    def restart(self, worker, number):
        before = self.ledger
        self.ledger = Ledger.restore(json.loads(self.snapshot), SOURCES, **self.options)
        for row in self.rows:
            self.ledger.handle(decode(json.loads(row)))
        assert self.comparable(self.ledger) == self.comparable(before)
        self.ledger.handle(Resumed(self.now))

    def comparable(self, ledger):
        """The state without the deadlines, which start anew, and what is known of workers without leases."""
        leases = {worker: ledger.leases(worker) for worker in WORKERS}
        return json.dumps([leases, {key: value for key, value in ledger.state().items() if key != "leases"}])

    def compact(self, worker, number):
        self.snapshot, self.rows = json.dumps(self.ledger.state()), []

    def checkpoint(self, worker, number):
        self.version += 1  # what is finished from now on is of a later version
        kept = self.version - 1
        self.checkpoints.append((kept, json.dumps(self.ledger.state_at(kept))))
        if number % 2:
            self.ledger.forget_before(kept)
            self.compact(worker, number)

    def roll_back(self, worker, number):
        del self.checkpoints[1 + number % len(self.checkpoints) :]
        version, state = self.checkpoints[-1]
        self.went_back(version, RollBack(json.loads(state)))

    def undo(self, worker, number):
        version = self.checkpoints[-1][0] + number
        if version < self.version:
            self.went_back(version, UndoAfter(version))

    def went_back(self, version, event):
        self.done = {shard: finished for shard, finished in self.done.items() if finished <= version}
        self.old += [lease for held in self.held.values() for lease in held]
        self.held = {worker: [] for worker in WORKERS}
        self.accepted = []
        self.version = version + 1
        self.tell(event)

    def work_in_peace(self):
        """Every worker asks and finishes in turn; each round some worker must get on, or all is over."""
        while True:
            answers = [self.ask(worker, 0) for worker in WORKERS]
            busy = any(self.held.values())
            for worker in WORKERS:
                self.finish(worker, 0)
            if all(isinstance(answer, NoWorkEver) for answer in answers):
                return
            assert busy or not any(isinstance(answer, NoWorkNow) for answer in answers)


MOVES = (
    *(Job.ask, Job.ask, Job.ask, Job.finish, Job.finish, Job.finish, Job.progress),
    *(Job.report_late, Job.report_again, Job.fail, Job.give_back, Job.lose, Job.expire),
    *(Job.restart, Job.compact, Job.checkpoint, Job.roll_back, Job.undo),
)


@settings(max_examples=2000, deadline=None, derandomize=True, database=None)
@given(
    epochs=st.integers(1, 3), seed=st.none() | st.integers(0, 3), played=st.binary(min_size=90, max_size=180)
)
def test_every_record_of_every_epoch_is_done_exactly_once(epochs, seed, played):
    """Three bytes are a move: what happens, to whom, and how much of it."""
    job = Job(epochs, seed)
    for move, worker, number in zip(*[iter(played)] * 3, strict=False):
        job.play(move % len(MOVES), WORKERS[worker % len(WORKERS)], number % 10)
    job.work_in_peace()
    assert job.ledger.finished
    assert sorted(job.done) == [(epoch, shard) for epoch in range(epochs) for shard in range(SHARDS)]
    for epoch in range(epochs):
        whole = {"a": [(0, 25)], "b": [(100, 107)], "empty": [], "c": [(0, 31)]}
        assert job.ledger.done_intervals(epoch) == whole
