"""One server's part of the model: what becomes of pushes."""

import numpy as np
import pytest
from ps_worlds import SGD, push, store

from elastic_runtime.ps.store import MOST_SNAPSHOTS
from elastic_runtime.rpc.ps_pb2 import Verdict

NAN = float("nan")


def test_synchronous_push_waits_until_enough_are_there_and_their_mean_is_applied():
    held = store(grads_to_wait=2)
    held.set_senders(1, ["a", "b"], now=0)
    first, second = push("a", 1.0, delta=2.0), push("b", 3.0, delta=4.0)
    assert held.push(first, now=0) is None
    outcome = held.push(second, now=1)
    assert outcome.verdict == Verdict.ACCEPTED
    assert (outcome.merge.version, outcome.merge.workers) == (1, ("a", "b"))
    assert held.outcome(first.id) == outcome
    assert held.model.weights.tolist() == [-2.0] * 4
    assert held.model.state.tolist() == [3.0] * 2


def test_third_of_two_wanted_gradients_is_stale():
    held = store(grads_to_wait=2)
    held.set_senders(1, ["a", "b", "c"], now=0)
    held.push(push("a"), now=0)
    held.push(push("b"), now=0)
    assert held.push(push("c"), now=0).verdict == Verdict.STALE
    assert held.version == 1


def test_tolerated_version_is_taken_and_an_older_one_is_not():
    held = store(version=7, sync_version_tolerance=2)
    assert held.push(push("a", version=4), now=0).verdict == Verdict.STALE
    assert held.push(push("a", version=5), now=0).verdict == Verdict.ACCEPTED


def test_never_waits_for_more_gradients_than_workers_can_send():
    held = store(grads_to_wait=3)
    held.set_senders(1, ["a", "b", "c"], now=0)
    assert held.push(push("a"), now=0) is None
    held.set_senders(2, ["a", "b"], now=1)
    assert held.version == 0
    held.set_senders(3, ["a"], now=2)
    assert held.version == 1


def test_gradient_of_a_worker_lost_while_it_waited_counts():
    held = store(grads_to_wait=2)
    held.set_senders(1, ["a", "b"], now=0)
    held.push(push("a", 1.0), now=0)
    held.set_senders(2, ["b"], now=1)
    assert held.version == 0
    held.push(push("b", 3.0), now=2)
    assert held.model.weights[0] == -2.0


def test_older_word_about_senders_is_ignored():
    held = store(grads_to_wait=2)
    held.set_senders(5, ["a", "b"], now=0)
    held.push(push("a"), now=0)
    held.set_senders(4, ["a"], now=1)
    assert held.version == 0


def test_new_master_counts_its_words_from_the_beginning():
    held = store(grads_to_wait=2)
    held.set_senders(57, ["a", "b"], now=0)
    held.push(push("a"), now=0)
    held.senders.new_master()
    assert held.push(push("c"), now=0).verdict == Verdict.ACCEPTED
    held.push(push("a", version=1), now=1)
    assert held.version == 1
    held.set_senders(1, ["a"], now=2)
    assert held.version == 2


def test_pusher_the_master_has_not_named_yet_counts_itself():
    held = store(grads_to_wait=2)
    held.set_senders(1, [], now=0)
    assert held.push(push("new"), now=0).verdict == Verdict.ACCEPTED


def test_without_a_word_of_the_master_only_known_pushers_are_waited_for():
    held = store(grads_to_wait=2)
    assert held.push(push("a"), now=0).verdict == Verdict.ACCEPTED
    assert held.push(push("b", version=1), now=0) is None
    assert held.push(push("a", version=1), now=0).verdict == Verdict.ACCEPTED


def test_wait_ends_at_its_deadline_and_says_so_once(caplog):
    held = store(grads_to_wait=2, wait_seconds=5)
    held.set_senders(1, ["a", "b"], now=0)
    waiting = push("a", 1.0)
    held.push(waiting, now=10)
    assert held.deadline == 15
    held.advance(now=14.9)
    assert held.outcome(waiting.id) is None
    held.advance(now=15)
    assert held.outcome(waiting.id).verdict == Verdict.ACCEPTED
    assert held.model.weights[0] == -1.0
    assert len(caplog.records) == 1


@pytest.mark.parametrize("use_async", [False, True])
def test_repeated_push_is_applied_once_and_gets_the_same_answer(use_async):
    held = store(use_async=use_async)
    sent = push("a", 1.0)
    first = held.push(sent, now=0)
    assert held.push(sent, now=1) == first
    assert held.version == 1
    assert held.model.weights[0] == -1.0


def test_push_repeated_while_it_waits_goes_on_waiting():
    held = store(grads_to_wait=2)
    held.set_senders(1, ["a", "b"], now=0)
    sent = push("a")
    assert held.push(sent, now=0) is None
    assert held.push(sent, now=0) is None
    assert held.waiting == 1


def test_push_older_than_the_workers_last_is_refused():
    held = store(use_async=True)
    held.push(push("a", seq=5), now=0)
    assert held.push(push("a", seq=4, version=1), now=0).verdict == Verdict.STALE


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        (push("a", era=2), Verdict.WRONG_ERA),
        (push("a", version=9), Verdict.WRONG_ERA),
        (push("a", weights=5), Verdict.MISFIT),
        (push("a", state=0), Verdict.MISFIT),
        (push("a", NAN), Verdict.NONFINITE),
        (push("a", rate=NAN), Verdict.NONFINITE),
        (push("a", merge=(1, ["a"])), Verdict.MISFIT),
    ],
)
def test_refused_push_changes_nothing(wrong, verdict):
    held = store()
    assert held.push(wrong, now=0).verdict == verdict
    assert (held.version, held.step) == (0, 0)
    assert not held.model.weights.any()


def test_asynchronous_push_is_applied_at_once_with_its_rate_divided_by_its_staleness():
    held = store(use_async=True, lr_staleness_modulation=True, version=4)
    held.push(push("a", version=4), now=0)
    assert held.model.weights[0] == -1.0
    held.push(push("b", version=1), now=0)
    assert held.model.weights[0] == -1.25
    assert held.version == 6


def test_stale_asynchronous_push_has_full_effect_without_modulation():
    held = store(use_async=True, version=4)
    held.push(push("b", version=0), now=0)
    assert held.model.weights[0] == -1.0


def test_snapshots_are_kept_at_multiples_and_stay_as_they_were():
    held = store(evaluation_steps=2, checkpoint_steps=4, optimizer={"name": "SGD", "momentum": 0.5})
    for version in range(5):
        held.push(push("a", version=version), now=0)
    assert held.reached == [2, 4]
    assert {version: taken.slots is not None for version, taken in held.snapshots.items()} == {
        2: False,
        4: True,
    }
    two = np.frombuffer(b"".join(held.snapshots[2].weights.chunks()), np.float32)
    assert two[0] == -2.5
    assert held.model.weights[0] < -6


def test_snapshots_nobody_drops_do_not_fill_the_memory():
    held = store(checkpoint_steps=1)
    for version in range(MOST_SNAPSHOTS + 3):
        held.push(push("a", version=version), now=0)
    assert list(held.snapshots) == list(range(4, MOST_SNAPSHOTS + 4))


def test_snapshots_that_come_too_fast_do_not_take_the_place_of_the_one_being_evaluated_nor_of_checkpoints():
    held = store(evaluation_steps=1, checkpoint_steps=MOST_SNAPSHOTS)
    for version in range(MOST_SNAPSHOTS + 3):
        held.push(push("a", version=version), now=0)
    assert list(held.snapshots) == [*range(1, MOST_SNAPSHOTS - 1), MOST_SNAPSHOTS, MOST_SNAPSHOTS + 3]


def test_snapshot_that_is_let_go_before_a_server_has_come_to_it_is_not_taken():
    """Server 0 may be far ahead of one whose part of a gradient is still on its way."""
    held = store(index=1, parts=2, evaluation_steps=1, checkpoint_steps=2)
    for version in (1, 2):
        held.drop(version)
    for version in (1, 2, 3):
        held.push(push("a", merge=(version, "a")), now=0)
    assert list(held.snapshots) == [3]
    held.drop(4)
    held.hold(store().model, version=3, era=2)
    held.push(push("a", merge=(4, "a"), era=2), now=0)
    assert list(held.snapshots) == [4], "it is of another model"


def test_going_back_voids_what_waits():
    held = store(grads_to_wait=2, evaluation_steps=1)
    held.set_senders(1, ["a", "b"], now=0)
    held.push(push("a"), now=0)
    held.push(push("b"), now=0)
    waiting = push("a", version=1)
    held.push(waiting, now=0)
    held.hold(store().model, version=0, era=2)
    assert held.outcome(waiting.id).verdict == Verdict.WRONG_ERA
    assert (held.waiting, held.snapshots) == (0, {})
    assert held.push(push("a", era=2), now=0) is None


class TestFollower:
    """Server 1 of 2: it applies what server 0 decided."""

    def test_applies_a_version_when_all_merged_pushes_are_here(self):
        held = store(index=1, parts=2)
        assert held.push(push("a", 1.0, merge=(1, "ab")), now=0) is None
        assert held.push(push("b", 3.0, merge=(1, "ab")), now=0).merge.version == 1
        assert held.model.weights[0] == -2.0

    def test_applies_versions_in_order(self):
        held = store(index=1, parts=2)
        later, sooner = push("b", 1.0, merge=(2, "b")), push("a", 1.0, merge=(1, "a"))
        assert held.push(later, now=0) is None
        assert held.push(sooner, now=0).verdict == Verdict.ACCEPTED
        assert held.outcome(later.id).verdict == Verdict.ACCEPTED
        assert held.version == 2

    def test_waits_no_longer_for_a_lost_worker(self):
        held = store(index=1, parts=2)
        held.set_senders(1, ["a", "b"], now=0)
        held.push(push("a", merge=(1, "ab")), now=0)
        held.set_senders(2, ["a"], now=1)
        assert held.version == 1

    def test_skips_a_version_whose_only_sender_was_lost(self):
        held = store(index=1, parts=2)
        held.set_senders(1, ["a", "b"], now=0)
        assert held.push(push("a", merge=(2, "a")), now=0) is None
        held.set_senders(2, ["a"], now=1)
        assert held.version == 2

    def test_waits_for_a_gap_no_longer_than_its_deadline(self):
        held = store(index=1, parts=2, wait_seconds=5)
        held.push(push("a", merge=(3, "a")), now=0)
        held.advance(now=5)
        assert held.version == 3

    def test_late_push_of_a_version_that_went_on_without_it_is_not_lost(self):
        held = store(index=1, parts=2, wait_seconds=5)
        held.push(push("a", 1.0, merge=(1, "ab")), now=0)
        held.advance(now=5)
        assert held.push(push("b", 3.0, merge=(1, "ab")), now=6).verdict == Verdict.ACCEPTED
        assert (held.model.weights[0], held.version) == (-1.0 - 3.0 / 2, 1)

    def test_goes_on_to_a_version_whose_only_sender_was_lost_before_its_push_came(self):
        """Nobody can push before all have pulled that version: else none would ever come."""
        held = store(index=1, parts=2, evaluation_steps=1)
        held.set_senders(1, ["a", "b"], now=0)
        held.expect(1, ["a"], now=0)
        assert held.version == 0, "it may be on its way"
        held.set_senders(2, ["b"], now=1)
        assert (held.version, held.model.weights[0]) == (1, 0.0)
        assert list(held.snapshots) == [1]
        assert held.push(push("b", 1.0, version=1, merge=(2, "b")), now=1).verdict == Verdict.ACCEPTED
        held.expect(3, ["a"], now=1)
        assert held.version == 3, "that it was lost is known already"

    def test_goes_on_at_once_to_a_version_whose_senders_are_lost_though_others_before_it_are_missing(self):
        held = store(index=1, parts=2, evaluation_steps=1)
        held.set_senders(1, ["a", "b", "c"], now=0)
        held.set_senders(2, ["c"], now=0)
        held.push(push("c", 1.0, merge=(1, "c")), now=0)
        held.expect(2, ["c"], now=0)
        held.expect(3, ["b"], now=0)
        assert (held.version, list(held.snapshots), held.deadline) == (3, [1, 2, 3], float("inf"))
        assert held.push(push("c", 1.0, merge=(2, "c")), now=0).verdict == Verdict.ACCEPTED, "it is late"
        assert held.model.weights[0] == -2.0

    def test_version_that_is_heard_of_waits_for_its_push_as_long_as_a_push_does_for_others(self, caplog):
        held = store(index=1, parts=2, wait_seconds=5)
        held.set_senders(1, ["a", "b"], now=0)
        held.expect(1, ["a"], now=10)
        held.expect(1, ["a"], now=14)
        assert held.deadline == 15
        held.advance(now=14.9)
        assert held.version == 0
        held.advance(now=15)
        assert (held.version, held.deadline) == (1, float("inf"))
        assert [each.levelname for each in caplog.records if each.levelname != "INFO"] == ["WARNING"]
        assert held.push(push("a", 1.0, merge=(1, "a")), now=16).verdict == Verdict.ACCEPTED
        assert held.model.weights[0] == -1.0

    def test_push_of_a_version_that_was_heard_of_is_applied_as_any(self):
        held = store(index=1, parts=2)
        held.expect(1, "ab", now=0)
        assert held.push(push("a", 1.0, merge=(1, "ab")), now=0) is None
        held.expect(1, "ab", now=0)
        assert held.push(push("b", 3.0, merge=(1, "ab")), now=0).verdict == Verdict.ACCEPTED
        assert (held.version, held.model.weights[0]) == (1, -2.0)

    def test_no_push_that_waits_is_passed_over_for_a_later_one(self):
        held = store(index=1, parts=2)
        held.set_senders(1, ["a", "b", "c", "d"], now=0)
        assert held.push(push("b", merge=(1, "ab")), now=0) is None
        assert held.push(push("c", merge=(2, "c")), now=0) is None
        held.expect(3, ["d"], now=0)
        held.set_senders(2, ["a", "b", "c"], now=0)
        assert held.version == 0
        held.push(push("a", merge=(1, "ab")), now=0)
        assert held.version == 3

    def test_version_that_is_heard_of_holds_up_none_that_comes_after_a_loss(self):
        held = store(index=1, parts=2)
        held.set_senders(1, ["a", "b"], now=0)
        held.expect(1, None, now=0)  # for its snapshot; of whom it is made is not known
        held.set_senders(2, ["b"], now=0)
        assert held.version == 0
        assert held.push(push("b", merge=(2, "b")), now=0).verdict == Verdict.ACCEPTED
        assert (held.version, held.deadline) == (2, float("inf"))

    @pytest.mark.parametrize("use_async", [False, True])
    def test_goes_on_to_a_version_that_is_heard_of_when_nobody_trains(self, use_async):
        held = store(index=1, parts=2, use_async=use_async, checkpoint_steps=2, version=1)
        held.expect(2, None, now=0)
        assert held.version == 1, "it is not known yet who trains"
        held.set_senders(1, ["a"], now=0)
        assert held.version == 1
        held.set_senders(2, [], now=0)
        assert (held.version, held.snapshots[2].slots) == (2, {})

    def test_skipped_version_has_a_snapshot_of_the_model_before_the_next(self):
        held = store(index=1, parts=2, evaluation_steps=1)
        held.set_senders(1, ["a", "b"], now=0)
        held.push(push("a", 1.0, merge=(2, "a")), now=0)
        held.set_senders(2, ["a"], now=1)
        found = {
            n: np.frombuffer(b"".join(taken.weights.chunks()), np.float32)[0]
            for n, taken in held.snapshots.items()
        }
        assert found == {1: 0.0, 2: -1.0}

    def test_asynchronous_push_may_be_of_a_version_that_only_server_0_has(self):
        held = store(index=1, parts=2, use_async=True, lr_staleness_modulation=True)
        assert held.push(push("a", 1.0, version=3), now=0).verdict == Verdict.ACCEPTED
        assert (held.version, held.model.weights[0]) == (1, -1.0)

    def test_server_0_has_no_version_but_those_it_made(self):
        held = store(parts=2)
        held.set_senders(1, [], now=0)
        held.expect(1, ["a"], now=0)
        assert (held.version, held.deadline) == (0, float("inf"))

    def test_refuses_a_push_server_0_has_not_decided_on(self):
        held = store(index=1, parts=2)
        assert held.push(push("a"), now=0).verdict == Verdict.MISFIT
        assert held.push(push("a", merge=(1, "b")), now=0).verdict == Verdict.MISFIT


@pytest.mark.parametrize("weights", [0, 1, 262_144, 262_145, 700_000])
def test_buffers_of_any_size_are_cut_into_chunks_and_joined(weights):
    held = store(weights=weights, state=3, grads_to_wait=2, optimizer=SGD)
    held.set_senders(1, ["a", "b"], now=0)
    held.push(push("a", 1.0, weights=weights, state=3), now=0)
    held.push(push("b", 2.0, weights=weights, state=3), now=0)
    assert held.version == 1
    assert (held.model.weights == -1.5).all()
