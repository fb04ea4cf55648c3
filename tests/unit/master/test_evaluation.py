"""The evaluation, event by event: which version is evaluated when, and what comes of it."""

import json
import random

import numpy as np
import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.master.evaluation import (
    Began,
    Evaluation,
    EvaluationCancelled,
    EvaluationFinished,
    EvaluationPlanned,
    EvaluationSkipped,
    EvaluationStarted,
    FinalModel,
    Granted,
    Kind,
    MetricState,
    PartDone,
    ResultReported,
    ResultWanted,
    SnapshotFailed,
    SnapshotFree,
    SnapshotLost,
    SnapshotWanted,
    Tick,
    VersionReached,
    decode,
    encode,
)
from elastic_runtime.master.evaluation.evaluation import BEHIND, LOST, MOST_WAITING, TOO_MANY
from elastic_runtime.master.ledger import (
    Accepted,
    Ask,
    AtWork,
    Expire,
    Failed,
    GivenBack,
    JobFailed,
    Lease,
    NoWorkEver,
    NoWorkNow,
    Progress,
    Refused,
    Renewed,
    Requeued,
    Resumed,
    Source,
    WorkerLost,
    changes,
)


def an_evaluation(**options):
    return Evaluation([Source("a", 25)], **{"records_per_shard": 10, "lease_seconds": 60.0} | options)


def states(shard):
    """A count and a total, as a Keras mean keeps them."""
    total = np.float32(sum(range(shard.start, shard.end)))
    return (MetricState("mean", (total, np.array([shard.end - shard.start], np.float32))),)


def ask(evaluation, worker="w", now=0.0):
    return evaluation.handle(Ask(worker, now))[0]


def do(evaluation, worker="w"):
    """One lease of either kind, asked for and reported."""
    granted = ask(evaluation, worker)
    if granted.kind is Kind.SHARD:
        return evaluation.handle(PartDone(worker, granted.lease, states(granted.shard), 0.0))
    [mean] = granted.states
    total, count = mean.variables
    return evaluation.handle(ResultReported(worker, granted.lease, {"mean": float(total / count[0])}, 0.0))


def do_all(evaluation):
    effects = []
    while not evaluation.idle:
        effects += do(evaluation)
    return effects


def evaluated(effects):
    return [effect.version for effect in effects if isinstance(effect, EvaluationFinished)]


def test_states_of_all_shards_are_summed_and_made_a_result():
    evaluation = an_evaluation(steps=50)
    assert evaluation.handle(VersionReached(50)) == [EvaluationStarted(50, snapshot=50)]
    do(evaluation)
    do(evaluation)
    assert do(evaluation)[1:] == [ResultWanted(50), SnapshotFree(50)]
    assert do(evaluation)[1:] == [EvaluationFinished(50, {"mean": 12.0})]
    assert evaluation.results == {50: {"mean": 12.0}}
    assert ask(evaluation) == NoWorkEver()


def test_figures_come_in_the_order_of_their_metrics_however_they_were_sent():
    evaluation = Evaluation([Source("a", 1)], records_per_shard=1, lease_seconds=60.0, steps=1)
    evaluation.handle(VersionReached(1))
    names = ("head/recall", "accuracy", "auc")
    sums = tuple(MetricState(name, (np.float32(1),)) for name in names)
    evaluation.handle(PartDone("w", ask(evaluation).lease, sums, 0.0))
    sent = {"auc": 0.9, "head/recall/10": 0.3, "accuracy": 0.8, "head/recall/9": 0.2}
    evaluation.handle(ResultReported("w", ask(evaluation).lease, sent, 0.0))
    assert [*evaluation.results[1]] == ["head/recall/9", "head/recall/10", "accuracy", "auc"]
    assert evaluation.results[1] == sent


def test_every_multiple_of_the_steps_is_evaluated_once_and_in_order():
    evaluation = an_evaluation(steps=50)
    effects = []
    for version in (1, 49, 50, 51, 100, 100, 150, 50, 0):
        effects += evaluation.handle(VersionReached(version))
    assert effects == [EvaluationStarted(50, 50), EvaluationPlanned(100), EvaluationPlanned(150)]
    assert evaluation.snapshots() == [50, 100, 150]
    assert evaluated(do_all(evaluation)) == [50, 100, 150]
    assert evaluation.handle(VersionReached(100)) == []


def test_by_time_the_first_comes_after_the_delay_and_then_one_a_throttle_at_most():
    evaluation = an_evaluation(start_delay=100.0, throttle=30.0)
    assert evaluation.handle(VersionReached(7)) == []
    evaluation.handle(Began(1000.0))
    assert evaluation.next_deadline() == 1100.0
    assert evaluation.handle(Tick(1099.0)) == []
    assert evaluation.handle(Tick(1101.0)) == [SnapshotWanted()]
    assert evaluation.handle(Tick(2000.0)) == []
    assert evaluation.handle(VersionReached(8)) == [], "this snapshot is somebody else's"
    assert evaluation.handle(VersionReached(8, asked=True)) == [EvaluationStarted(8, 8)]
    assert evaluation.handle(Tick(2000.0)) == []
    do_all(evaluation)
    assert evaluation.next_deadline() == 1131.0
    assert evaluation.handle(Tick(1130.0)) == []
    assert evaluation.handle(Tick(1131.0)) == [SnapshotWanted()]


def test_a_snapshot_wanted_and_not_had_is_wanted_again():
    for loss in (SnapshotLost(), SnapshotFailed(), Resumed(1.0)):
        evaluation = an_evaluation(throttle=30.0)
        evaluation.handle(Began(0.0))
        assert evaluation.handle(Tick(0.0)) == [SnapshotWanted()]
        evaluation.handle(loss)
        assert evaluation.handle(Tick(30.0)) == [SnapshotWanted()]


def test_the_final_model_is_evaluated_at_the_end_when_nothing_else_was_asked_for():
    evaluation = an_evaluation()
    assert evaluation.handle(VersionReached(50)) == []
    assert evaluation.handle(FinalModel(57)) == [EvaluationStarted(57, snapshot=0)]
    assert ask(evaluation).snapshot == 0
    evaluation.handle(WorkerLost("w"))
    effects = do_all(evaluation)
    assert evaluated(effects) == [57]
    assert not any(isinstance(effect, SnapshotFree) for effect in effects)
    assert evaluation.next_deadline() is None


def test_the_final_model_is_not_evaluated_twice():
    evaluation = an_evaluation(steps=50)
    evaluation.handle(VersionReached(50))
    assert evaluation.handle(FinalModel(50)) == []
    do_all(evaluation)
    assert evaluation.handle(FinalModel(50)) == []
    assert evaluation.handle(FinalModel(60)) == [EvaluationStarted(60, 0)]


def test_a_lost_worker_costs_no_attempt_and_its_shard_is_evaluated_by_another():
    evaluation = an_evaluation(steps=1, max_failures=1)
    evaluation.handle(VersionReached(1))
    for away in (WorkerLost("x"), Expire("x"), None):
        granted = ask(evaluation, "x")
        [requeued] = evaluation.handle(away or GivenBack("x", granted.lease, 0, 0.0))
        assert isinstance(requeued, Requeued)
        assert requeued.lease == granted.lease
        assert isinstance(
            evaluation.handle(PartDone("x", granted.lease, states(granted.shard), 0.0))[0], Refused
        )
    do_all(evaluation)
    assert evaluation.results == {1: {"mean": 12.0}}


def test_a_lost_result_is_asked_for_again():
    evaluation = an_evaluation(steps=1)
    evaluation.handle(VersionReached(1))
    for _ in range(3):
        do(evaluation)
    lost = ask(evaluation, "x")
    assert (lost.kind, ask(evaluation, "y")) == (Kind.RESULT, NoWorkNow())
    assert isinstance(evaluation.handle(Expire("x"))[0], Requeued)
    assert isinstance(evaluation.handle(ResultReported("x", lost.lease, {}, 0.0))[0], Refused)
    do(evaluation, "y")
    assert evaluation.results == {1: {"mean": 12.0}}


def test_a_repeated_report_is_accepted_and_not_summed_again():
    evaluation = an_evaluation(steps=1)
    evaluation.handle(VersionReached(1))
    granted = ask(evaluation)
    report = PartDone("w", granted.lease, states(granted.shard), 0.0)
    assert [evaluation.handle(report)[0].duplicate for _ in range(3)] == [False, True, True]
    do_all(evaluation)
    assert evaluation.results == {1: {"mean": 12.0}}


def test_the_same_question_gets_the_same_answer():
    evaluation = an_evaluation(steps=1)
    assert evaluation.repeated(Ask("w", 0.0, serial=7)) is None
    evaluation.handle(VersionReached(1))
    [granted] = evaluation.handle(Ask("w", 0.0, serial=7))
    [again] = evaluation.handle(Ask("w", 0.0, serial=7))
    assert again.lease == granted.lease == evaluation.repeated(Ask("w", 0.0, serial=7)).lease
    assert evaluation.repeated(Ask("w", 0.0, serial=8)) is None


def test_a_shard_that_fails_its_attempts_fails_the_job():
    evaluation = an_evaluation(steps=1, max_failures=2)
    evaluation.handle(VersionReached(1))
    failures = [evaluation.handle(Failed("w", ask(evaluation).lease, "bad", False, 0.0))[0] for _ in range(2)]
    assert isinstance(failures[0], Requeued)
    assert isinstance(failures[1], JobFailed)
    assert (failures[1].shard.start, failures[1].shard.end) == (0, 10)
    assert ask(evaluation) == NoWorkEver()


def test_a_result_that_fails_its_attempts_fails_the_job_and_names_the_version():
    evaluation = an_evaluation(steps=1, max_failures=1)
    evaluation.handle(VersionReached(1))
    for _ in range(3):
        do(evaluation)
    [failed] = evaluation.handle(Failed("w", ask(evaluation).lease, "no such metric", False, 0.0))
    assert isinstance(failed, JobFailed)
    assert "version 1" in failed.shard.source


@pytest.mark.parametrize(
    "strange",
    [
        (),
        (MetricState("other", (np.zeros(()), np.zeros(1))),),
        (MetricState("mean", (np.zeros(3), np.zeros(1))),),
        (MetricState("mean", (np.zeros(()), np.zeros(1)), "median"),),
        (MetricState("mean", (np.array("x"), np.zeros(1))),),
    ],
)
def test_states_that_do_not_fit_cost_the_shard_an_attempt(strange):
    evaluation = an_evaluation(steps=1)
    evaluation.handle(VersionReached(1))
    do(evaluation)
    [requeued] = evaluation.handle(PartDone("w", ask(evaluation).lease, strange, 0.0))
    assert isinstance(requeued, Requeued)
    assert "metric" in requeued.reason
    do_all(evaluation)
    assert evaluation.results == {1: {"mean": 12.0}}


def test_a_lost_snapshot_cancels_and_the_version_is_evaluated_when_reached_again():
    evaluation = an_evaluation(steps=50)
    for version in (50, 100):
        evaluation.handle(VersionReached(version))
    granted = ask(evaluation)
    assert evaluation.handle(SnapshotLost()) == [EvaluationCancelled(50), EvaluationCancelled(100)]
    assert evaluation.idle
    assert evaluation.handle(VersionReached(50)) == [EvaluationStarted(50, 50)]
    assert ask(evaluation).shard == granted.shard
    assert isinstance(evaluation.handle(PartDone("w", granted.lease, states(granted.shard), 0.0))[0], Refused)
    evaluation.handle(WorkerLost("w"))
    evaluation.handle(VersionReached(100))
    assert evaluated(do_all(evaluation)) == [50, 100]


def test_one_lost_snapshot_leaves_the_others():
    evaluation = an_evaluation(steps=50)
    for version in (50, 100, 150):
        evaluation.handle(VersionReached(version))
    assert evaluation.handle(SnapshotLost(100)) == [EvaluationSkipped(100, LOST)]
    assert evaluation.handle(SnapshotLost(50)) == [EvaluationSkipped(50, LOST), EvaluationStarted(150, 150)]


def test_what_comes_due_faster_than_it_is_done_holds_training_back_and_is_left_out_beyond_a_bound():
    evaluation = an_evaluation(steps=1)
    behind = []
    for version in range(1, MOST_WAITING + 2):  # one is open, the others wait
        evaluation.handle(VersionReached(version))
        behind.append(evaluation.behind)
    assert behind == [False] * BEHIND + [True] * (MOST_WAITING + 1 - BEHIND)
    too_late = MOST_WAITING + 2
    assert evaluation.handle(VersionReached(too_late)) == [EvaluationSkipped(too_late, TOO_MANY)]
    assert len(evaluation.snapshots()) == MOST_WAITING + 1
    evaluation.handle(FinalModel(too_late))
    assert evaluated(do_all(evaluation)) == [*range(1, too_late), too_late], "the finished model is evaluated"
    assert not evaluation.behind


def test_a_worker_at_other_work_keeps_what_it_is_to_evaluate():
    evaluation = an_evaluation(steps=50)
    evaluation.handle(VersionReached(50))
    assert evaluation.handle(AtWork("w", 0.0)) == [], "it holds nothing yet"
    ask(evaluation)
    assert evaluation.handle(AtWork("w", 50.0)) == [Renewed()]
    assert evaluation.next_deadline() == 110.0


def test_a_result_under_way_needs_no_snapshot():
    evaluation = an_evaluation(steps=50)
    evaluation.handle(VersionReached(50))
    for _ in range(3):
        do(evaluation)
    assert evaluation.snapshots() == []
    assert evaluation.handle(SnapshotLost()) == []
    assert evaluated(do_all(evaluation)) == [50]


def test_a_result_under_way_when_the_model_goes_back_is_asked_of_the_next_at_once():
    evaluation = an_evaluation(steps=50)
    evaluation.handle(VersionReached(50))
    for _ in range(3):
        do(evaluation)
    void = ask(evaluation, "x")
    assert void.kind is Kind.RESULT
    evaluation.handle(SnapshotLost())
    assert ask(evaluation, "y").kind is Kind.RESULT
    assert isinstance(evaluation.handle(ResultReported("x", void.lease, {}, 0.0))[0], Refused)


def test_the_final_model_of_another_past_is_evaluated_though_its_version_was_before():
    evaluation = an_evaluation(steps=50)
    evaluation.handle(VersionReached(50))
    do_all(evaluation)
    evaluation.handle(SnapshotLost())
    assert evaluation.handle(VersionReached(50)) == []
    assert evaluation.handle(FinalModel(50)) == [EvaluationStarted(50, 0)]


def test_counts_grow_beyond_what_float32_can_count():
    evaluation = an_evaluation(steps=1)
    evaluation.handle(VersionReached(1))
    for total in (2.0**24, 1.0, 1.0):
        part = (MetricState("count", (np.float32(total),)), MetricState("top", (np.float32(total),), "max"))
        evaluation.handle(PartDone("w", ask(evaluation).lease, part, 0.0))
    count, top = ask(evaluation).states
    assert (float(count.variables[0]), float(top.variables[0])) == (2.0**24 + 2, 2.0**24)


def test_progress_renews_and_a_late_worker_is_overdue():
    evaluation = an_evaluation(steps=1)
    evaluation.handle(VersionReached(1))
    granted = ask(evaluation, now=0.0)
    assert evaluation.handle(Progress("w", granted.lease, 50.0)) == [Renewed()]
    assert (evaluation.next_deadline(), evaluation.overdue(110.0)) == (110.0, ["w"])
    [refused] = evaluation.handle(Progress("w", granted.lease._replace(epoch=2), 50.0))
    assert isinstance(refused, Refused)


def test_validation_data_without_records_is_refused():
    with pytest.raises(InputError, match="no records"):
        Evaluation([], records_per_shard=10)


@pytest.mark.parametrize(
    "event",
    [
        Began(1.0),
        Tick(2.0),
        VersionReached(3),
        FinalModel(4),
        SnapshotLost(),
        SnapshotLost(5),
        ResultReported("w", Lease(50, 0, 3), {"accuracy": 0.5}, 1.0),
        Ask("w", 1.0, 2),
        Failed("w", Lease(50, 0, 3), "why", False, 1.0),
    ],
)
def test_events_survive_the_journal(event):
    assert decode(json.loads(json.dumps(encode(event)))) == event


def test_a_report_with_arrays_survives_the_journal_bit_for_bit():
    arrays = (
        np.float32(0.1),
        np.array([[1, 2]], np.int64),
        np.array([np.nan, np.inf, -0.0]),
        np.zeros((0, 3)),
    )
    event = PartDone("w", Lease(50, 0, 3), (MetricState("m", arrays, "max"),), 1.0)
    [state] = decode(json.loads(json.dumps(encode(event)))).states
    assert (state.name, state.rule) == ("m", "max")
    for sent, got in zip(arrays, state.variables, strict=True):
        assert (sent.dtype, sent.shape, sent.tobytes()) == (got.dtype, got.shape, got.tobytes())


@pytest.mark.parametrize("seed", range(200))
def test_whatever_befalls_it_each_version_is_evaluated_once_and_exactly(seed):
    """Random losses, failures, repeated reports, and restarts from the journal by state and events."""
    chance, options = random.Random(seed), {"records_per_shard": 10, "steps": 10, "max_failures": 10**6}
    evaluation = Evaluation([Source("a", 25)], **options)
    rows, snapshot, finished, reached = [], evaluation.state(), [], 0

    def tell(event):
        effects = evaluation.handle(event)
        if changes(effects):
            rows.append(json.dumps(encode(event)))
        finished.extend(evaluated(effects))
        return effects

    def work(worker):
        [granted, *_] = tell(Ask(worker, 0.0))
        if not isinstance(granted, Granted):
            return
        fate = chance.random()
        if fate < 0.15:
            tell(WorkerLost(worker))
        elif fate < 0.25:
            tell(Failed(worker, granted.lease, "bad luck", False, 0.0))
        elif fate < 0.9:
            if granted.kind is Kind.SHARD:
                report = PartDone(worker, granted.lease, states(granted.shard), 0.0)
            else:
                total, count = granted.states[0].variables
                report = ResultReported(worker, granted.lease, {"mean": float(total / count[0])}, 0.0)
            for _ in range(chance.choice((1, 1, 2))):
                assert isinstance(tell(report)[0], Accepted | Refused)

    for _ in range(60):
        if chance.random() < 0.1:
            reached += 5
            tell(VersionReached(reached))
        if chance.random() < 0.05:
            evaluation = Evaluation.restore(json.loads(json.dumps(snapshot)), [Source("a", 25)], **options)
            for row in rows:
                evaluation.handle(decode(json.loads(row)))
        if chance.random() < 0.1:
            rows, snapshot = [], evaluation.state()
        work(chance.choice("xyz"))
    tell(FinalModel(reached + 1))
    for _ in range(1000):
        for worker in "xyz":
            tell(WorkerLost(worker))
            work(worker)
        if evaluation.idle:
            break
    promised = list(range(10, reached + 1, 10))
    assert finished == [*promised, reached + 1]
    assert evaluation.results == {version: {"mean": 12.0} for version in finished}


def test_a_wanted_snapshot_of_a_version_evaluated_already_does_not_end_evaluation_by_time():
    evaluation = an_evaluation(steps=50, throttle=30.0)
    evaluation.handle(Began(0.0))
    evaluation.handle(VersionReached(50))
    do_all(evaluation)
    assert evaluation.handle(Tick(0.0)) == [SnapshotWanted()]
    assert evaluation.handle(VersionReached(50, asked=True)) == []
    assert evaluation.handle(Tick(30.0)) == [SnapshotWanted()]
