"""Training together is right, not only running: the weights are those of one worker with all the records."""

from __future__ import annotations

import numpy as np
import pytest

BATCH = 16
STEPS = 50

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]


def difference(one, other, what="weights"):
    pairs = zip(one[what], other[what], strict=True)
    return max(float(np.abs(np.array(a) - np.array(b)).max()) for a, b in pairs if a)


def train(members, start, count=BATCH):
    """A step: each member trains the next `count` records."""
    for number, member in enumerate(members):
        member.send("train", start=start + number * count, end=start + (number + 1) * count)
    return [member.answer() for member in members]


def assert_alike(members):
    """Bit-equal."""
    states = [member.do("state") for member in members]
    assert len({state["checksum"] for state in states}) == 1
    assert len({state["version"] for state in states}) == 1
    return states[0]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_workers_together_are_one_worker_with_all_their_records(worlds, optimizer):
    params = {"optimizer": optimizer}
    members = worlds.members(3, batch_size=BATCH, params=params)
    [alone] = worlds.members(1, kind="local", params=params, seed=1)
    worlds.together(members)
    for step in range(STEPS):
        start = step * 3 * BATCH
        train(members, start)
        alone.do("train", start=start, end=start + 3 * BATCH)
    state, expected = assert_alike(members), alone.do("state")
    assert state["version"] == expected["version"] == STEPS
    assert difference(state, expected) < 1e-5
    assert difference(state, expected, "slots") < 1e-5


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_loss_and_a_join_in_between_change_nothing(worlds, optimizer):
    """The minibatch that the loss cut short is trained again by the survivor; the lost one's is not."""
    params = {"optimizer": optimizer}
    first, second = worlds.members(2, batch_size=BATCH, params=params)
    [alone] = worlds.members(1, kind="local", params=params, seed=1)
    worlds.together([first, second])
    steps = [(start, start + 2 * BATCH) for start in range(0, 20 * 2 * BATCH, 2 * BATCH)]
    for start, _ in steps:
        train([first, second], start)
    cut_short = {"start": 1000, "end": 1000 + BATCH}
    first.send("train", **cut_short)
    second.kill()
    assert "lost" in first.answer()
    first.do("leave")
    worlds.together([first])
    first.do("train", **cut_short)
    steps.append((1000, 1000 + BATCH))
    [third] = worlds.members(1, batch_size=BATCH, params=params)
    first.do("leave")
    worlds.together([first, third])
    for start in range(1100, 1100 + 29 * 2 * BATCH, 2 * BATCH):
        train([first, third], start)
        steps.append((start, start + 2 * BATCH))
    for start, end in steps:
        alone.do("train", start=start, end=end)
    state, expected = assert_alike([first, third]), alone.do("state")
    assert state["version"] == expected["version"] == STEPS
    assert difference(state, expected) < 1e-5
    assert difference(state, expected, "slots") < 1e-5


def test_the_mean_is_over_the_records_really_used(worlds):
    """Three batches of different sizes, one of them empty-handed, weigh as their records do."""
    members = worlds.members(3, batch_size=BATCH)
    [alone] = worlds.members(1, kind="local", seed=1)
    worlds.together(members)
    for start in range(0, 10 * 40, 40):
        members[0].send("train", start=start, end=start + 16)
        members[1].send("train", start=start + 16, end=start + 21)
        members[2].send("idle")
        for member in members:
            member.answer()
        alone.do("train", start=start, end=start + 21)
    state = assert_alike(members)
    assert state["version"] == 10
    assert difference(state, alone.do("state")) < 1e-5


def test_turns_without_any_records_change_nothing_and_settle_what_was_before(worlds):
    members = worlds.members(2, batch_size=BATCH)
    worlds.together(members)
    train(members, 0)
    before = assert_alike(members)
    assert (before["version"], before["settled"]) == (1, 0)
    for member in members:
        member.send("idle")
    for member in members:
        member.answer()
    after = assert_alike(members)
    assert (after["version"], after["settled"]) == (1, 1)
    assert after["checksum"] == before["checksum"]


def test_statistics_of_batch_norm_are_the_mean_of_the_members_and_alike(worlds):
    params = {"norm": True}
    members = worlds.members(2, batch_size=BATCH, params=params)
    worlds.together(members)
    for step in range(5):
        train(members, step * 2 * BATCH)
        states = [member.do("state") for member in members]
        assert difference(*states) == 0
    for member in members:
        member.send("train", start=0, end=BATCH)
    for member in members:
        member.answer()
    assert_alike(members)


def test_a_newcomer_takes_everything_of_rank_0(worlds):
    params = {"optimizer": "adam", "norm": True}
    old = worlds.members(2, batch_size=BATCH, params=params, snapshot_steps=(2,))
    worlds.together(old)
    for step in range(5):
        train(old, step * 2 * BATCH)
    new = worlds.members(2, batch_size=BATCH, params=params, snapshot_steps=(2,))
    for member in old:
        member.do("leave")
    worlds.together([*old, *new])
    states = [member.do("state") for member in [*old, *new]]
    for state in states[1:]:
        assert difference(states[0], state) == 0
        assert difference(states[0], state, "slots") == 0
        assert state["version"] == 5


def test_what_one_wishes_all_agree_on_after_the_same_turn(worlds):
    members = worlds.members(2, batch_size=BATCH)
    worlds.together(members)
    members[1].do("wish", what="change")
    members[0].do("wish", what="snapshot")
    assert [a["change"] for a in train(members, 0)] == [True, True]
    assert [member.do("state")["snapshot"] for member in members] == [1, 1]


@pytest.mark.parametrize(("policy", "factor"), [("none", 1.0), ("linear", 2.0), ("sqrt", 2.0**0.5)])
def test_the_learning_rate_follows_the_size_of_the_world_as_told(worlds, policy, factor):
    members = worlds.members(2, batch_size=BATCH, lr_scaling=policy)
    [alone] = worlds.members(1, kind="local", seed=1)
    answers = worlds.together(members)
    assert [a["rate"] for a in answers] == pytest.approx([0.1 * factor] * 2)
    before = members[0].do("state")
    train(members, 0)
    after = assert_alike(members)
    start = alone.do("state")
    assert difference(start, before) == 0
    end = alone.do("train", start=0, end=2 * BATCH) and alone.do("state")
    moved = [np.subtract(a, b) for a, b in zip(after["weights"], before["weights"], strict=True)]
    expected = [np.subtract(a, b) * factor for a, b in zip(end["weights"], start["weights"], strict=True)]
    for ours, theirs in zip(moved, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_half_precision_on_the_wire_keeps_the_members_alike_and_near(worlds):
    members = worlds.members(2, batch_size=BATCH, compression="fp16")
    [alone] = worlds.members(1, kind="local", seed=1)
    worlds.together(members)
    for step in range(10):
        train(members, step * 2 * BATCH)
        alone.do("train", start=step * 2 * BATCH, end=(step + 1) * 2 * BATCH)
    state = assert_alike(members)
    assert 0 < difference(state, alone.do("state")) < 1e-2


def test_a_loss_in_the_middle_of_a_step_leaves_the_survivors_with_one_state(worlds):
    """Killed at moments all over a step, again and again: survivors are at one version with equal weights,
    or one step apart, and after the next world alike.
    """
    members = worlds.members(2, batch_size=BATCH, params={"optimizer": "adam"})
    worlds.together(members)
    start = 0
    for _ in range(4):
        victims = worlds.members(1, batch_size=BATCH, params={"optimizer": "adam"})
        for member in members:
            member.do("leave")
        group = [*members, *victims]
        worlds.together(group)
        train(group, start)
        for number, member in enumerate(group):
            member.send("train", start=start + 100 + number * BATCH, end=start + 100 + (number + 1) * BATCH)
        victims[0].kill()
        for member in members:
            member.answer()
        states = [member.do("state") for member in members]
        if states[0]["version"] == states[1]["version"]:
            assert states[0]["checksum"] == states[1]["checksum"]
        for member in members:
            member.do("leave")
        worlds.together(members)
        assert_alike(members)
        train(members, start)
        start += 10


def test_what_is_owed_outlasts_worlds_in_which_nothing_was_done(worlds):
    """Twice a world comes together and breaks again before a turn: the minibatch is still done, and once."""
    first, second = worlds.members(2, batch_size=BATCH)
    worlds.together([first, second])
    train([first, second], 0)
    first.send("train", start=100, end=100 + BATCH)
    second.kill()
    assert "lost" in first.answer()
    for _ in range(2):
        first.do("leave")
        worlds.together([first])
    assert first.do("idle")["version"] == 2
    assert first.do("idle")["version"] == 2


def test_one_that_never_comes_is_told_by_the_store_and_the_rest_can_try_again(worlds):
    members = worlds.members(2, batch_size=BATCH)
    store = worlds.store()
    for rank, member in enumerate(members):
        member.send("enter", world=1, rank=rank, size=3, store=store)
    worlds.void()
    assert all("lost" in member.answer() for member in members)
    for member in members:
        member.do("leave")
    worlds.together(members)
    train(members, 0)
    assert_alike(members)
