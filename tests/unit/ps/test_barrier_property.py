"""Synchronous training over several servers, in any order of events: no deadlock, no gradient lost."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ps_worlds import push, store

from elastic_runtime.rpc.ps_pb2 import Verdict

WORKERS = ("a", "b", "c", "d")


class Job:
    """Workers and servers as state machines; every event is one call. Each gradient is 1."""

    def __init__(self, *, parts, wanted, tolerance):
        common = {
            "parts": parts,
            "grads_to_wait": wanted,
            "sync_version_tolerance": tolerance,
            "wait_seconds": 60,
        }
        self.servers = [store(weights=1, state=1, index=index, **common) for index in range(parts)]
        self.alive = dict.fromkeys(WORKERS)  # what each has under way: (push, servers left)
        self.versions = dict.fromkeys(WORKERS, 0)
        self.generation = 0
        self.tell()

    def tell(self):
        self.generation += 1
        for server in self.servers:
            server.set_senders(self.generation, self.alive, now=0)

    def send(self, worker, pull):
        """A worker sends a push to server 0, or its next one, or asks what became of what it sent."""
        under_way = self.alive[worker]
        leader = self.servers[0]
        if under_way is None:
            if pull:
                self.versions[worker] = leader.version
            sent = push(worker, 1.0, version=self.versions[worker], weights=1, state=1, delta=1.0)
            outcome = leader.push(sent, now=0)
            if outcome is not None and outcome.verdict == Verdict.STALE:
                assert self.versions[worker] < leader.version
                self.versions[worker] = leader.version
                return
            self.alive[worker] = [sent, outcome, 0]
        self.settle(worker)

    def settle(self, worker):
        """Take a worker as far as it gets without anybody else."""
        sent, outcome, server = self.alive[worker]
        if outcome is None:
            outcome = self.servers[server].outcome(sent.id)
        if outcome is None:
            return
        assert outcome.verdict == Verdict.ACCEPTED
        if server + 1 == len(self.servers):
            self.alive[worker] = None
            return
        merge = (outcome.merge.version, outcome.merge.workers)
        following = push(worker, 1.0, seq=sent.id.seq, weights=1, state=1, delta=1.0, merge=merge)
        self.alive[worker] = [following, self.servers[server + 1].push(following, now=0), server + 1]

    def lose(self, worker):
        if worker in self.alive:
            del self.alive[worker]
            self.tell()

    def join(self):
        """A worker comes in the place of one that was lost."""
        worker = f"later-{next(_later)}"
        self.alive[worker], self.versions[worker] = None, 0
        self.tell()
        return worker

    def pull(self, worker):
        """A worker fetches all parts; false if one of them is still to come."""
        leader = self.servers[0]
        made = leader.present().merge
        for server in self.servers[1:]:
            if server.version < leader.version:
                server.expect(made.version, made.workers, now=0)
        self.versions[worker] = leader.version
        return all(server.version >= leader.version for server in self.servers)


_later = itertools.count()
events = st.lists(
    st.tuples(st.sampled_from(["send", "pull", "lose", "repeat"]), st.sampled_from(WORKERS)), max_size=60
)


@settings(max_examples=300, deadline=None)
@given(events=events, parts=st.integers(1, 3), wanted=st.integers(1, 5), tolerance=st.integers(0, 2))
def test_no_order_of_events_blocks_a_job_or_loses_a_gradient(events, parts, wanted, tolerance):
    job = Job(parts=parts, wanted=wanted, tolerance=tolerance)
    for what, worker in events:
        if what == "lose":
            job.lose(worker)
        elif worker in job.alive:
            under_way = job.alive[worker]
            if what == "repeat" and under_way is not None:
                job.servers[under_way[2]].push(under_way[0], now=0)
            else:
                job.send(worker, pull=what == "pull")
    finish(job)
    leader = job.servers[0]
    assert leader.model.state[0] == leader.version  # each version is a mean, and the mean of ones is one
    for server in job.servers:
        assert server.waiting == 0
        np.testing.assert_allclose(server.model.weights, -server.model.state, rtol=1e-5)
        if not any(what == "lose" for what, _ in events):
            assert (server.version, server.model.state[0]) == (leader.version, leader.version)


def finish(job):
    """Without any time passing, workers end what they have under way and leave one by one."""
    for _ in WORKERS:
        for _ in range(len(job.servers) * len(WORKERS)):
            for worker in [worker for worker, under_way in job.alive.items() if under_way is not None]:
                job.settle(worker)
        idle = [worker for worker, under_way in job.alive.items() if under_way is None]
        job.lose(idle[0] if idle else None)
    assert not job.alive, f"deadlock: versions {[server.version for server in job.servers]}"


@settings(max_examples=300, deadline=None)
@given(
    events=st.lists(st.tuples(st.sampled_from(["send", "lose", "look"]), st.integers(0, 3)), max_size=60),
    parts=st.integers(2, 3),
    wanted=st.integers(1, 5),
)
def test_whoever_comes_after_losses_between_two_servers_has_a_model_to_go_on_with(events, parts, wanted):
    """None pushes before it has pulled: what nobody will bring must not be waited for, not even a while."""
    job = Job(parts=parts, wanted=wanted, tolerance=0)
    for what, number in events:
        worker = list(job.alive)[number]
        if what == "lose":
            job.lose(worker)
            job.join()
        elif what == "look":
            job.pull(worker) if job.alive[worker] is None else job.settle(worker)
        elif job.alive[worker] is not None or job.pull(worker):
            job.send(worker, pull=False)
    lost = [worker for worker, under_way in job.alive.items() if under_way is not None]
    for worker in lost:
        job.lose(worker)
    newcomer = job.join()
    assert job.pull(newcomer), [server.version for server in job.servers]
    for worker in [worker for worker in job.alive if worker != newcomer]:
        job.lose(worker)
    for _ in range(3):
        before = job.servers[0].version
        for _ in range(parts):
            job.send(newcomer, pull=False)
        assert job.alive[newcomer] is None, "all have applied it"
        assert [server.version for server in job.servers] == [before + 1] * parts
        assert job.pull(newcomer)


@settings(max_examples=100, deadline=None)
@given(
    order=st.permutations(WORKERS),
    wanted=st.integers(1, 4),
    values=st.lists(st.integers(-8, 8), min_size=4, max_size=4),
)
def test_version_is_the_mean_of_its_pushes(order, wanted, values):
    held = store(weights=1, state=1, grads_to_wait=wanted)
    held.set_senders(1, WORKERS, now=0)
    taken = []
    for worker, value in zip(order, values, strict=True):
        if held.version == 0:
            held.push(push(worker, float(value), weights=1, state=1), now=0)
            taken.append(value)
    assert held.version == 1
    assert held.model.weights[0] == pytest.approx(-sum(taken) / wanted)
