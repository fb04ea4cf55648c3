"""The ledger, event by event: given what happened, this follows."""

import json

import numpy as np
import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.ledger import (
    Accepted,
    AllFinished,
    Ask,
    AtWork,
    EpochFinished,
    Expire,
    Failed,
    Finished,
    GivenBack,
    Granted,
    JobFailed,
    Lease,
    Ledger,
    Left,
    NoWorkEver,
    NoWorkNow,
    Progress,
    Refused,
    Renewed,
    Reopened,
    Requeued,
    Resumed,
    RollBack,
    RolledBack,
    Shard,
    Source,
    StopHandingOut,
    Stopping,
    UndoAfter,
    WorkerLost,
    changes,
    decode,
    encode,
)
from elastic_runtime.master.ledger.packing import pack_mask, unpack_mask

TWO_FILES = (Source("a", 25), Source("b", 7, start=100))  # shards of 10: a[0,10) a[10,20) a[20,25) b[100,107)


def a_ledger(sources=TWO_FILES, **options):
    return Ledger(sources, **{"records_per_shard": 10, "lease_seconds": 60.0} | options)


def restored(ledger, sources=TWO_FILES, **options):
    state = json.loads(json.dumps(ledger.state()))
    return Ledger.restore(state, sources, **{"records_per_shard": 10, "lease_seconds": 60.0} | options)


def grant(ledger, worker="w", now=0.0):
    [granted] = ledger.handle(Ask(worker, now))
    assert isinstance(granted, Granted)
    return granted.lease


def finish(ledger, lease, worker="w", version=1, now=0.0):
    return ledger.handle(Finished(worker, lease, version, now))


def train_all(ledger, worker="w", version=1):
    shards = []
    while isinstance(granted := ledger.handle(Ask(worker, 0.0))[0], Granted):
        shards.append(granted.shard)
        finish(ledger, granted.lease, worker, version)
    return shards


def test_shards_cover_every_source_and_the_last_of_each_is_short():
    shards = train_all(a_ledger())
    assert shards == [Shard("a", 0, 10), Shard("a", 10, 20), Shard("a", 20, 25), Shard("b", 100, 107)]


def test_shuffled_epochs_have_the_same_shards_in_another_order_given_by_the_seed():
    sources = [Source("a", 1000)]
    first = train_all(a_ledger(sources, epochs=2, seed=1))
    assert (
        first
        == train_all(a_ledger(sources, epochs=2, seed=1))
        != train_all(a_ledger(sources, epochs=2, seed=2))
    )
    assert sorted(first[:100]) == sorted(first[100:])
    assert first[:100] != first[100:]


def test_finishing_the_last_shard_finishes_the_epoch_and_then_the_job():
    ledger = a_ledger([Source("a", 20)], epochs=2)
    first, second = grant(ledger), grant(ledger)
    assert finish(ledger, second) == [Accepted(second, Shard("a", 10, 20))]
    assert finish(ledger, first) == [Accepted(first, Shard("a", 0, 10)), EpochFinished(0)]
    first, second = grant(ledger), grant(ledger)
    finish(ledger, first)
    assert finish(ledger, second)[1:] == [EpochFinished(1), AllFinished("")]
    assert ledger.handle(Ask("w", 0.0)) == [NoWorkEver()]
    assert (ledger.records_done, ledger.records_total) == (40, 40)


def test_the_next_epoch_begins_when_this_one_has_nothing_left_but_what_comes_back_goes_first():
    ledger = a_ledger([Source("a", 20)], epochs=2)
    grant(ledger, "slow")
    finish(ledger, grant(ledger))
    assert grant(ledger).epoch == 1
    ledger.handle(WorkerLost("slow"))
    assert grant(ledger)[:2] == (0, 0)


def test_no_work_now_is_not_no_work_ever():
    ledger = a_ledger([Source("a", 10)])
    lease = grant(ledger)
    assert ledger.handle(Ask("idle", 0.0)) == [NoWorkNow()]
    finish(ledger, lease)
    assert ledger.handle(Ask("idle", 0.0)) == [NoWorkEver()]


def test_epochs_without_end_go_on():
    ledger = a_ledger([Source("a", 10)], epochs=0)
    for epoch in range(5):
        lease = grant(ledger)
        assert lease.epoch == epoch
        assert finish(ledger, lease)[1:] == [EpochFinished(epoch)]
    assert ledger.records_total is None


def test_no_data_is_finished_at_once_however_many_epochs():
    assert a_ledger([Source("a", 0)], epochs=0).handle(Ask("w", 0.0)) == [NoWorkEver(), AllFinished("")]


def test_a_repeated_report_is_accepted_again_and_not_counted_again():
    ledger = a_ledger()
    lease = grant(ledger)
    finish(ledger, lease)
    for teller in (ledger, restored(ledger)):
        assert finish(teller, lease) == [Accepted(lease, Shard("a", 0, 10), duplicate=True)]
        assert teller.records_done == 10


def test_a_stale_attempt_is_refused_whoever_reports_it():
    ledger = a_ledger([Source("a", 10)])
    old = grant(ledger)
    ledger.handle(Expire("w"))
    new = grant(ledger)
    assert new[:2] == old[:2]
    assert new.attempt != old.attempt
    for report in (
        Progress("w", old, 0.0),
        Finished("w", old, 1, 0.0),
        Finished("other", new, 1, 0.0),
        Failed("w", old, "no", False, 0.0),
        GivenBack("w", old, 0, 0.0),
        Finished("w", Lease(0, 99, new.attempt), 1, 0.0),
        Finished("w", Lease(7, 0, new.attempt), 1, 0.0),
        Finished("nobody", Lease(-1, -1, -1), 1, 0.0),
    ):
        [answer] = ledger.handle(report)
        assert isinstance(answer, Refused)
    assert isinstance(finish(ledger, new)[0], Accepted)


def test_the_same_question_gets_the_same_answer():
    ledger = a_ledger()
    [first] = ledger.handle(Ask("w", 0.0, serial=1))
    assert ledger.handle(Ask("w", 0.0, serial=1)) == [first]
    assert restored(ledger).handle(Ask("w", 0.0, serial=1)) == [first]
    assert ledger.repeated(Ask("w", 0.0, serial=1)) == first
    assert ledger.repeated(Ask("w", 0.0, serial=2)) is None
    assert ledger.handle(Ask("w", 0.0, serial=2)) != [first]
    finish(ledger, ledger.leases("w")[1])
    assert ledger.handle(Ask("w", 0.0, serial=2))[0].shard == Shard("a", 20, 25)


def test_preempted_worker_costs_the_shard_no_attempt():
    ledger = a_ledger([Source("a", 10)], max_failures=1)
    for _ in range(50):
        grant(ledger)
        [requeued] = ledger.handle(WorkerLost("w"))
        assert isinstance(requeued, Requeued)
    grant(ledger)
    ledger.handle(Expire("w"))
    ledger.handle(GivenBack("w", grant(ledger), 3, 0.0))
    assert isinstance(finish(ledger, grant(ledger))[0], Accepted)
    assert not ledger.failed


def test_of_a_lost_workers_leases_only_the_one_in_training_counts_as_trained_again():
    ledger = a_ledger()
    training, prefetched = grant(ledger), grant(ledger)
    assert ledger.handle(WorkerLost("w")) == [
        Requeued("w", training, Shard("a", 0, 10), 10, "worker lost"),
        Requeued("w", prefetched, Shard("a", 10, 20), 0, "worker lost"),
    ]
    assert ledger.records_retrained == 10


def test_a_drained_worker_counts_what_it_had_trained():
    ledger = a_ledger()
    lease = grant(ledger)
    assert ledger.handle(GivenBack("w", lease, 4, 0.0)) == [
        Requeued("w", lease, Shard("a", 0, 10), 4, "given back")
    ]
    ledger.handle(GivenBack("w", grant(ledger), 10**9, 0.0))
    assert ledger.records_retrained == 14


def test_a_shard_that_fails_its_attempts_fails_the_job_and_names_the_records():
    ledger = a_ledger()
    for worker in ("w0", "w1"):
        lease = grant(ledger, worker)
        [requeued] = ledger.handle(Failed(worker, lease, "bad pixel", False, 0.0))
        assert requeued.shard == Shard("a", 0, 10)
        ledger.handle(WorkerLost(worker))
        ledger = restored(ledger)
    last = Failed("w2", grant(ledger, "w2"), "bad pixel", False, 0.0)
    assert ledger.handle(last) == [JobFailed(Shard("a", 0, 10), 3, "bad pixel")]
    assert ledger.handle(Ask("w", 0.0)) == restored(ledger).handle(Ask("w", 0.0)) == [NoWorkEver()]
    assert not ledger.finished


def test_a_fatal_failure_is_not_tried_again():
    ledger = a_ledger()
    [effect] = ledger.handle(Failed("w", grant(ledger), "no such column", True, 0.0))
    assert effect == JobFailed(Shard("a", 0, 10), 1, "no such column")


def test_a_shard_that_failed_with_a_worker_is_tried_by_another_first():
    """It may be the worker's place that cannot read it, and the same worker asks again at once."""
    ledger = a_ledger()
    grant(ledger, "other")
    ledger.handle(Failed("w", grant(ledger), "cannot be read", False, 0.0))
    ledger = restored(ledger)
    assert grant(ledger).shard == 2
    assert grant(ledger, "other").shard == 1
    ledger.handle(Failed("other", Lease(0, 1, ledger.attempts), "cannot be read", False, 0.0))
    assert grant(ledger).shard == 1, "with whom it failed last"


def test_a_shard_that_failed_with_the_only_worker_at_work_is_tried_again_at_once():
    ledger = a_ledger()
    ledger.handle(Failed("w", grant(ledger), "no", False, 0.0))
    assert grant(ledger).shard == 0


def test_a_shard_that_failed_with_a_worker_goes_to_it_again_where_no_other_is_left():
    ledger = a_ledger([Source("a", 20)])
    grant(ledger, "other")
    ledger.handle(Failed("w", grant(ledger), "no", False, 0.0))
    assert grant(ledger).shard == 1


def test_a_worker_at_other_work_keeps_what_it_holds():
    ledger = a_ledger()
    assert ledger.handle(AtWork("w", 0.0)) == []
    assert ledger.next_deadline() is None
    grant(ledger)
    renewed = ledger.handle(AtWork("w", 50.0))
    assert (renewed, ledger.next_deadline()) == ([Renewed()], 110.0)
    assert not changes(renewed)


def test_progress_on_one_lease_renews_all_but_asking_renews_none():
    ledger = a_ledger()
    first = grant(ledger, now=0.0)
    grant(ledger, now=50.0)
    assert ledger.next_deadline() == 60.0
    assert ledger.handle(Progress("w", first, 55.0)) == [Renewed()]
    assert (ledger.next_deadline(), ledger.overdue(114.9), ledger.overdue(115.0)) == (115.0, [], ["w"])
    finish(ledger, first, now=100.0)
    assert ledger.next_deadline() == 160.0
    assert len(ledger.handle(Expire("w"))) == 1
    assert ledger.next_deadline() is None


def test_of_many_workers_those_without_progress_are_overdue_earliest_first():
    ledger = a_ledger()
    leases = [grant(ledger, f"w{number}", now=float(number)) for number in range(3)]
    ledger.handle(Progress("w0", leases[0], 5.0))
    assert ledger.next_deadline() == 61.0
    assert [ledger.overdue(now) for now in (60.0, 61.5, 64.9)] == [[], ["w1"], ["w1", "w2"]]


def test_a_clock_set_back_may_delay_an_expiry_but_loses_none():
    ledger = a_ledger()
    lease = grant(ledger, "early", now=1000.0)
    grant(ledger, "late", now=1010.0)
    ledger.handle(Progress("early", lease, 500.0))
    assert ledger.overdue(1070.0) == ["late", "early"]


def test_after_a_restart_leases_hold_and_all_deadlines_start_anew():
    ledger = a_ledger()
    lease = grant(ledger, now=0.0)
    again = restored(ledger)
    assert again.overdue(1e12) == []
    again.handle(Resumed(1000.0))
    assert again.next_deadline() == 1060.0
    assert isinstance(finish(again, lease)[0], Accepted)


def test_told_to_stop_it_hands_out_no_more_and_ends_with_those_in_flight():
    ledger = a_ledger()
    first, second = grant(ledger, "w0"), grant(ledger, "w1")
    assert ledger.handle(StopHandingOut("max_step")) == [Stopping("max_step")]
    assert ledger.handle(Ask("w2", 0.0)) == [NoWorkEver()]
    finish(ledger, first, "w0")
    assert ledger.handle(WorkerLost("w1"))[1:] == [AllFinished("max_step")]
    assert second.shard == 1
    assert ledger.done_intervals(0) == {"a": [(0, 10)], "b": []}


def test_told_to_stop_what_is_given_back_is_left_as_it_is_and_not_trained_again():
    ledger = a_ledger()
    begun, waiting = grant(ledger), grant(ledger)
    ledger.handle(StopHandingOut("max_step"))
    assert ledger.handle(GivenBack("w", begun, 7, 1.0)) == [Left(begun, ledger.shards[0], begun=True)]
    left, over = ledger.handle(GivenBack("w", waiting, 0, 1.0))
    assert (left, over) == (Left(waiting, ledger.shards[1], begun=False), AllFinished("max_step"))
    assert ledger.records_retrained == 0
    assert ledger.handle(Ask("w", 2.0)) == [NoWorkEver()]


def test_told_to_stop_with_nothing_in_flight_it_ends_at_once():
    assert a_ledger().handle(StopHandingOut("user"))[1:] == [AllFinished("user")]


def test_done_intervals_are_merged():
    ledger = a_ledger(epochs=2)
    leases = [grant(ledger) for _ in range(4)]
    for lease in (leases[1], leases[0], leases[3]):
        finish(ledger, lease)
    assert ledger.done_intervals(0) == {"a": [(0, 20)], "b": [(100, 107)]}
    assert ledger.done_intervals(1) == {"a": [], "b": []}
    finish(ledger, leases[2])
    assert ledger.done_intervals(0) == {"a": [(0, 25)], "b": [(100, 107)]}


def test_what_came_back_is_handed_out_by_number_before_the_rest_also_after_a_restart():
    ledger = a_ledger([Source("a", 100)], seed=3)
    first = [grant(ledger, f"w{number}").shard for number in range(6)]
    for number in (4, 0, 3, 1):
        ledger.handle(WorkerLost(f"w{number}"))
    returned = sorted(first[number] for number in (4, 0, 3, 1))
    again = restored(ledger, [Source("a", 100)], seed=3)
    handed_out = [grant(ledger).shard for _ in range(8)]
    assert handed_out[:4] == returned
    assert handed_out == [grant(again).shard for _ in range(8)]


def test_a_lost_worker_leaves_nothing_behind():
    ledger = a_ledger()
    finish(ledger, grant(ledger))
    grant(ledger)
    ledger.handle(WorkerLost("w"))
    assert (ledger.in_flight(), ledger.training_workers(), ledger.leases("w")) == (0, [], [])
    assert ledger.state()["leases"] == {}


def test_a_shard_that_was_finished_and_undone_has_all_its_attempts_again():
    ledger = a_ledger([Source("a", 10)], max_failures=2)
    ledger.handle(Failed("w", grant(ledger), "once", False, 0.0))
    lease = grant(ledger)
    finish(ledger, lease, version=5)
    ledger.handle(UndoAfter(4))
    assert isinstance(finish(ledger, lease)[0], Refused)
    assert isinstance(ledger.handle(Failed("w", grant(ledger), "again", False, 0.0))[0], Requeued)


def test_undo_takes_back_what_later_versions_finished_even_of_a_finished_epoch():
    ledger = a_ledger(epochs=2)
    for version in (10, 20, 30, 40):
        finish(ledger, grant(ledger), version=version)
    held = grant(ledger)
    assert held.epoch == 1
    assert ledger.handle(UndoAfter(20)) == [RolledBack(voided=1, again=5 + 7 + 10)]
    assert ledger.records_done == 20
    assert isinstance(finish(ledger, held)[0], Refused)
    assert [shard.start for shard in train_all(ledger)] == [20, 100, 0, 10, 20, 100]
    assert ledger.records_done == ledger.records_total


def test_a_checkpoint_of_a_version_holds_what_was_finished_by_it_and_nothing_in_flight():
    ledger = a_ledger(epochs=2)
    for version in (10, 20, 30, 40):
        finish(ledger, grant(ledger), version=version)
    state = json.loads(json.dumps(ledger.state_at(20)))
    grant(ledger)
    old = grant(ledger)
    assert ledger.handle(RollBack(state)) == [RolledBack(voided=2, again=5 + 7 + 10)]
    assert ledger.done_intervals(0) == {"a": [(0, 20)], "b": []}
    assert isinstance(finish(ledger, old)[0], Refused)
    fresh = Ledger.restore(state, TWO_FILES, records_per_shard=10, epochs=2)
    assert train_all(ledger) == train_all(fresh)
    assert ledger.handle(Ask("w", 0.0)) == [NoWorkEver()]


def test_a_rollback_after_the_end_hands_out_again():
    ledger = a_ledger()
    finish(ledger, grant(ledger), version=1)
    state = ledger.state_at(1)
    ledger.handle(StopHandingOut("max_step"))
    assert ledger.finished
    ledger.handle(RollBack(state))
    assert not ledger.finished
    assert len(train_all(ledger)) == 3
    assert ledger.finished


def test_a_model_that_begins_anew_or_from_what_was_forgotten_is_trained_from_the_start():
    for version in (-1, 15):
        ledger = a_ledger()
        for finished in (10, 20, 30):
            finish(ledger, grant(ledger), version=finished)
        ledger.forget_before(20)
        held = grant(ledger)
        assert ledger.handle(UndoAfter(version)) == [RolledBack(voided=1, again=25 + 7)]
        assert isinstance(finish(ledger, held)[0], Refused)
        assert len(train_all(ledger)) == 4
        assert ledger.records_done == ledger.records_total


def test_a_reopened_job_hands_out_again_and_forgives_failures():
    stopped, failed = a_ledger(), a_ledger(max_failures=2)
    stopped.handle(StopHandingOut("user"))
    for _ in range(2):
        failed.handle(Failed("w", grant(failed), "bad", False, 0.0))
    for ledger in (stopped, failed):
        assert ledger.handle(Ask("w", 0.0)) == [NoWorkEver()]
        ledger.handle(Reopened())
        assert not ledger.finished
        assert not ledger.failed
    assert isinstance(failed.handle(Failed("w", grant(failed), "bad", False, 0.0))[0], Requeued)
    for ledger in (stopped, restored(failed, max_failures=2)):
        assert len(train_all(ledger)) == 4
        assert ledger.finished


def test_attempts_go_on_counting_through_a_rollback():
    ledger = a_ledger()
    start = ledger.state_at(0)
    old = grant(ledger)
    ledger.handle(RollBack(start))
    assert grant(ledger).attempt > old.attempt


def test_history_that_was_forgotten_cannot_be_asked_for():
    ledger = a_ledger()
    for version in (10, 20):
        finish(ledger, grant(ledger), version=version)
    ledger.forget_before(10)
    assert Ledger.restore(ledger.state_at(10), TWO_FILES, records_per_shard=10).records_done == 10
    with pytest.raises(ValueError, match="begins at version 10, asked for 9"):
        ledger.state_at(9)


@pytest.mark.parametrize(
    ("sources", "options"),
    [
        ((Source("a", 25),), {}),
        ((Source("a", 25), Source("b", 7, start=101)), {}),
        (TWO_FILES, {"records_per_shard": 5}),
        (TWO_FILES, {"seed": 4}),
    ],
)
def test_a_state_of_other_data_is_refused_with_a_remedy(sources, options):
    with pytest.raises(ElasticError, match="--restart"):
        restored(a_ledger(), sources, **options)


def test_only_what_changed_the_ledger_needs_the_journal():
    ledger = a_ledger([Source("a", 10)])
    lease = ledger.handle(Ask("w", 0.0))
    assert changes(lease)
    assert not changes(ledger.handle(Ask("idle", 0.0)))
    assert not changes(ledger.handle(Progress("w", lease[0].lease, 0.0)))
    assert not changes(finish(ledger, Lease(0, 0, 99)))
    assert not changes(ledger.handle(WorkerLost("idle")))
    assert changes(finish(ledger, lease[0].lease))


@pytest.mark.parametrize(
    "event",
    [
        Ask("w", 1.5, 3),
        Progress("w", Lease(1, 2, 3), 4.0),
        Finished("w", Lease(1, 2, 3), 7, 4.0),
        Failed("w", Lease(1, 2, 3), "why", True, 4.0),
        GivenBack("w", Lease(1, 2, 3), 5, 4.0),
        WorkerLost("w"),
        Expire("w"),
        Resumed(4.0),
        StopHandingOut("why"),
        Reopened(),
        UndoAfter(3),
        RollBack({"begun": 1}),
    ],
)
def test_events_survive_the_journal(event):
    assert decode(json.loads(json.dumps(encode(event)))) == event


def test_state_grows_with_fragmentation_not_with_records():
    ledger = Ledger([Source("a", 10**9)], records_per_shard=1000, seed=0)
    assert len(json.dumps(ledger.state())) < 1000
    for _ in range(1000):
        finish(ledger, grant(ledger))
    ledger.forget_before(1)
    assert len(json.dumps(ledger.state())) < 10_000


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.5, 0.999, 1.0])
def test_packed_sets_come_back_whole(share):
    mask = np.random.default_rng(0).random(10_007) < share
    packed = json.loads(json.dumps(pack_mask(mask)))
    assert np.array_equal(unpack_mask(packed, mask.size), mask)


def trained_for_long(remembered=4):
    """Each shard took ten versions."""
    ledger = a_ledger(epochs=0, remembered=remembered)
    for version in range(10, 1010, 10):
        finish(ledger, grant(ledger), version=version)
    return ledger


def test_without_checkpoints_the_state_of_an_endless_training_stays_as_small_as_it_was():
    short, long = a_ledger(epochs=0, remembered=4), trained_for_long()
    for version in range(10, 100, 10):
        finish(short, grant(short), version=version)
    assert len(json.dumps(long.state())) < 1.2 * len(json.dumps(short.state()))


def test_without_checkpoints_a_model_that_goes_back_a_little_loses_no_more_than_that():
    ledger = trained_for_long()
    done = ledger.records_done
    ledger.handle(UndoAfter(989))
    assert done - ledger.records_done == 7 + 5, "the last two shards"
    long_ago = trained_for_long()
    long_ago.handle(UndoAfter(500))
    assert long_ago.records_done == 0, "all of it, since nobody knows"


def test_a_successor_forgets_what_its_predecessor_forgot():
    ledger = a_ledger(epochs=0, remembered=4)
    heir, heirs = a_ledger(epochs=0, remembered=4), []
    for version in range(10, 400, 10):
        events = [Ask("w", 0.0), Finished("w", grant(ledger), version, 0.0)]
        ledger.handle(events[1])
        for other in (heir, *heirs):
            for event in events:
                other.handle(decode(json.loads(json.dumps(encode(event)))))
        heirs.append(restored(ledger, epochs=0, remembered=4))
    assert all(json.dumps(other.state()) == json.dumps(ledger.state()) for other in (heir, *heirs))
