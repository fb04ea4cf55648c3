"""The rendezvous: who is let into which world, with which rank, and that nobody waits for ever."""

from __future__ import annotations

import random

import pytest

from elastic_runtime.master.rendezvous import (
    Arrived,
    Asked,
    Away,
    CallIn,
    Diverged,
    Formed,
    Gone,
    Rendezvous,
    Silent,
    Tick,
    Void,
)

GATHER, PATIENCE, REUNION = 1.0, 10.0, 3.0


def rendezvous(wanted: int = 3, smallest: int = 1) -> Rendezvous:
    return Rendezvous(wanted=wanted, smallest=smallest, gather=GATHER, patience=PATIENCE)


def ask(it: Rendezvous, name: str, now: float = 0.0, *, era: int = 1, version: int = 0, checksum: int = 7):
    return it.handle(Asked(name, era, version, checksum, now))


def formed(effects) -> Formed:
    [found] = [effect for effect in effects if isinstance(effect, Formed)]
    return found


@pytest.fixture
def three() -> Rendezvous:
    """A world of a, b and c."""
    it = rendezvous()
    for name in "abc":
        effects = ask(it, name, era=0)
    assert formed(effects).members == ("a", "b", "c")
    return it


def test_the_first_world_stands_as_soon_as_all_wanted_are_there():
    it = rendezvous()
    assert ask(it, "a", era=0) == []
    assert ask(it, "b", era=0) == []
    assert ask(it, "c", era=0) == [Formed(1, ("a", "b", "c"), 0, 0, ())]


def test_the_first_world_does_not_wait_for_ever_for_all_wanted():
    it = rendezvous()
    ask(it, "a", 5.0, era=0)
    ask(it, "b", 5.5, era=0)
    assert it.next_deadline() == 6.0
    assert it.handle(Tick(5.9)) == []
    assert formed(it.handle(Tick(6.0))).members == ("a", "b")


def test_fewer_than_the_smallest_number_wait_without_a_deadline():
    it = rendezvous(smallest=2)
    assert ask(it, "a", era=0) == []
    assert it.next_deadline() is None
    assert it.handle(Tick(1e9)) == []
    assert formed(ask(it, "b", 1e9, era=0)).members == ("a", "b")


def test_survivors_form_the_next_world_at_once_and_keep_their_order(three):
    assert three.handle(Gone("a")) == [Void(1)]
    assert ask(three, "c", 1.0, version=5) == []
    assert formed(ask(three, "b", 1.1, version=5)) == Formed(2, ("b", "c"), 1, 5, ())


def test_a_loss_told_after_the_survivors_asked_forms_the_world_then(three):
    ask(three, "c", 1.0)
    ask(three, "b", 1.0)
    effects = three.handle(Gone("a"))
    assert effects[0] == Void(1)
    assert formed(effects).members == ("b", "c")


def test_a_lone_newcomer_that_completes_the_wanted_number_is_let_in_at_once(three):
    three.handle(Gone("b"))
    for name in "ac":
        ask(three, name, 1.0)
    assert ask(three, "d", 5.0, era=0) == [CallIn(("a", "c"), ("d",))]


def test_survivors_do_not_wait_for_one_that_cannot_be_reached(three):
    ask(three, "b", 1.0)
    ask(three, "c", 1.0)
    effects = three.handle(Away("a"))
    assert formed(effects).members == ("b", "c")
    assert formed(effects).left_out == ()


def test_newcomers_do_not_begin_anew_while_the_members_only_cannot_be_reached(three):
    for name in "abc":
        three.handle(Away(name))
    ask(three, "d", 1.0, era=0)
    assert three.handle(Tick(100.0)) == []
    assert three.next_deadline() is None, "there is nothing to do until something happens"
    assert three.handle(Arrived("b", 1, 1)) == [CallIn(("b",), ("d",))]
    assert three.handle(Arrived("a", 1, 0)) == [CallIn(("a",), ("d",))]
    three.handle(Gone("c"))
    ask(three, "a", 101.0)
    assert formed(ask(three, "b", 101.0)).members == ("a", "b", "d")


def test_newcomers_are_gathered_and_cost_one_change(three):
    three.wanted = 10
    ask(three, "d", 10.0, era=0)
    ask(three, "e", 10.5, era=0)
    assert three.next_deadline() == 11.0
    assert three.handle(Tick(11.0)) == [CallIn(("a", "b", "c"), ("d", "e"))]
    assert three.next_deadline() is None
    assert ask(three, "f", 11.1, era=0) == []
    for name in "cab":
        effects = ask(three, name, 11.2, version=3)
    assert formed(effects) == Formed(2, ("a", "b", "c", "d", "e", "f"), 1, 3, ())


def test_ten_newcomers_cost_one_change(three):
    three.wanted = 13
    newcomers = tuple(f"n{number}" for number in range(10))
    effects = [effect for i, name in enumerate(newcomers) for effect in ask(three, name, 10 + i / 10, era=0)]
    assert effects == [CallIn(("a", "b", "c"), newcomers)]
    effects = [effect for name in "abc" for effect in ask(three, name, 11.0, version=3)]
    assert effects == [Formed(2, ("a", "b", "c", *newcomers), 1, 3, ())]


def test_a_member_without_progress_breaks_its_world_up_and_is_left_out_if_it_does_not_come(three):
    assert three.handle(Silent("a", 50.0)) == [Void(1)]
    assert three.handle(Silent("b", 50.0)) == [], "it is broken up already"
    ask(three, "b", 50.1, version=4)
    assert ask(three, "c", 50.2, version=4) == []
    assert three.next_deadline() == 60.1
    assert formed(three.handle(Tick(60.1))) == Formed(2, ("b", "c"), 1, 4, ("a",))
    assert three.handle(Silent("a", 70.0)) == [], "nobody waits for it any more"


@pytest.mark.parametrize("away", [False, True])
def test_newcomers_go_on_without_members_none_of_whom_makes_progress(three, away):
    for name in "bc":
        three.handle(Gone(name))
    if away:
        three.handle(Away("a"))
    ask(three, "d", 1.0, era=0)
    three.handle(Tick(2.0))
    assert three.next_deadline() is None
    assert three.handle(Silent("a", 50.0)) == [Void(1)]
    assert three.next_deadline() == 60.0
    assert three.handle(Tick(59.0)) == []
    assert formed(three.handle(Tick(60.0))) == Formed(2, ("d",), 0, 0, ("a",))
    assert ask(three, "a", 90.0, era=1, version=4) == []
    assert three.handle(Tick(91.0)) == [CallIn(("d",), ("a",))], "it comes back as a newcomer"


def test_a_member_without_progress_that_comes_after_all_keeps_its_place(three):
    three.handle(Silent("a", 50.0))
    for name in "bca":
        effects = ask(three, name, 51.0, version=4)
    assert formed(effects) == Formed(2, ("a", "b", "c"), 1, 4, ())


def test_a_member_that_does_not_come_is_left_out_and_comes_back_as_a_newcomer(three):
    ask(three, "a", 1.0, version=4)
    ask(three, "b", 2.0, version=4)
    assert three.next_deadline() == 11.0
    assert formed(three.handle(Tick(11.0))) == Formed(2, ("a", "b"), 1, 4, ("c",))
    assert ask(three, "c", 20.0, version=4) == [CallIn(("a", "b"), ("c",))]
    ask(three, "a", 21.0, version=9)
    assert formed(ask(three, "b", 21.0, version=9)).members == ("a", "b", "c")


def test_the_oldest_that_holds_the_model_is_rank_0_though_newcomers_asked_first(three):
    ask(three, "d", 1.0, era=0)
    three.handle(Gone("b"))
    ask(three, "c", 1.1, version=8)
    assert formed(ask(three, "a", 1.2, version=8)).members == ("a", "c", "d")


def test_one_that_holds_an_older_era_comes_behind_those_of_the_present(three):
    for name in "abc":
        three.handle(Gone(name))
    ask(three, "x", 1.0, era=2)
    ask(three, "a", 1.1, era=1)
    assert formed(ask(three, "y", 1.2, era=2)).members == ("x", "y", "a")


def test_all_lost_while_they_were_called_in_the_newcomers_go_on_alone(three):
    three.wanted = 10
    ask(three, "d", 1.0, era=0)
    assert three.handle(Tick(2.0)) == [CallIn(("a", "b", "c"), ("d",))]
    for name in "abc":
        three.handle(Gone(name))
    assert three.next_deadline() == 2.0
    assert formed(three.handle(Tick(2.0))) == Formed(2, ("d",), 0, 0, ())


def test_different_weights_of_one_version_are_found(three):
    ask(three, "a", 1.0, version=5, checksum=1)
    assert ask(three, "b", 1.0, version=4, checksum=2) == []  # one step behind: it repeats that step
    assert Diverged("a", "c", 5) in ask(three, "c", 1.0, version=5, checksum=3)


def test_a_new_master_learns_the_world_from_its_members():
    it = rendezvous()
    it.handle(Arrived("b", 4, 1))
    it.handle(Arrived("a", 4, 0))
    it.handle(Arrived("d"))
    assert (it.world, it.members) == (4, ["a", "b"])
    ask(it, "b", 1.0, version=3)
    assert formed(ask(it, "a", 1.0, version=3)) == Formed(5, ("a", "b"), 1, 3, ())


def test_a_process_that_comes_back_under_its_name_is_a_newcomer(three):
    three.handle(Gone("a"))
    three.handle(Arrived("a"))
    ask(three, "b", 1.0, version=2)
    assert formed(ask(three, "c", 1.0, version=2)).members == ("b", "c")
    assert ask(three, "a", 1.0, era=0) == [CallIn(("b", "c"), ("a",))]


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_those_who_stay_end_in_one_world(seed):
    """Random losses, joins, silence; in the end everybody who is there asks, and one world has them all."""
    chance, it, now, era = random.Random(seed), rendezvous(wanted=4), 0.0, 0
    there: dict[str, bool] = {}  # name: whether it holds the model
    worlds: list[Formed] = []

    def take(effects):
        for effect in effects:
            assert not isinstance(effect, Diverged)
            if isinstance(effect, Formed):
                assert set(effect.members) <= set(there)
                assert len(set(effect.members)) == len(effect.members)
                holders = [name for name in effect.members if there[name]]
                assert not holders or there[effect.members[0]], "rank 0 must hold the model"
                worlds.append(effect)
                there.update(dict.fromkeys(effect.members, True))

    for number in range(60):
        now += chance.random() * 3
        match chance.choice(["join", "ask", "ask", "gone", "away", "silent", "tick"]):
            case "join":
                there[f"w{number}"] = False
                it.handle(Arrived(f"w{number}"))
            case "ask" if there:
                name = chance.choice(list(there))
                take(it.handle(Asked(name, era if there[name] else 0, 0, 7, now)))
            case "gone" if there:
                name = chance.choice(list(there))
                del there[name]
                take(it.handle(Gone(name)))
            case "away" if there:
                name = chance.choice(list(there))
                take(it.handle(Away(name)))
                if chance.random() < 0.5:
                    place = it.members.index(name) if name in it.members else None
                    take(it.handle(Arrived(name, it.world if place is not None else 0, place or 0)))
            case "silent" if there:
                take(it.handle(Silent(chance.choice(list(there)), now)))
            case "tick":
                take(it.handle(Tick(now)))
        era = 1 if worlds else 0
    there.setdefault("last", False)
    for _ in range(4):  # a call-in, then the members, then whoever was left out
        for name in list(there):
            if name not in it.members or len(it.members) < len(there):
                take(it.handle(Asked(name, era if there[name] else 0, 0, 7, now)))
        deadline = it.next_deadline()
        take(it.handle(Tick(now if deadline is None else max(now, deadline))))
    assert sorted(it.members) == sorted(there)
    numbers = [world.world for world in worlds]
    assert numbers == sorted(set(numbers))


@pytest.fixture
def resumed() -> Rendezvous:
    """After a restart of the master; the world 7 of a, b and perhaps others trains on."""
    it = rendezvous()
    it.resume(REUNION, 7)
    return it


def test_a_newcomer_does_not_begin_anew_while_who_holds_the_model_may_find_the_new_master(resumed):
    assert ask(resumed, "new", 100.0, era=0) == []
    assert resumed.next_deadline() == 100.0 + PATIENCE
    assert resumed.handle(Tick(100.0 + PATIENCE - 0.1)) == []
    resumed.handle(Arrived("a", 7, 0))
    assert resumed.handle(Arrived("b", 7, 1)) == [CallIn(("a", "b"), ("new",))], "all wanted are there"
    ask(resumed, "b", 110.0, version=5)
    assert formed(ask(resumed, "a", 110.0, version=5)) == Formed(8, ("a", "b", "new"), 1, 5, ())


def test_who_holds_the_model_waits_for_the_others_no_longer_than_for_a_reunion(resumed):
    ask(resumed, "new", 100.0, era=0)
    resumed.handle(Arrived("a", 7, 0))
    assert resumed.next_deadline() == 100.0 + REUNION
    assert resumed.handle(Tick(100.0 + REUNION)) == [CallIn(("a",), ("new",))]


def test_one_that_has_left_its_world_holds_the_model_too(resumed):
    ask(resumed, "new", 100.0, era=0)
    resumed.handle(Asked("a", 4, 9, 7, 102.0, left=8))
    assert resumed.next_deadline() == 100.0 + REUNION
    assert formed(resumed.handle(Tick(100.0 + REUNION))) == Formed(9, ("a", "new"), 4, 9, ())


def test_newcomers_begin_anew_when_nobody_who_holds_the_model_has_come(resumed):
    ask(resumed, "new", 100.0, era=0)
    assert formed(resumed.handle(Tick(100.0 + PATIENCE))) == Formed(8, ("new",), 0, 0, ())


def test_newcomers_that_are_all_there_can_be_begin_anew_at_once(resumed):
    """A job that was stopped, and is started again."""
    for name in "xy":
        assert ask(resumed, name, 100.0, era=0) == []
    assert formed(ask(resumed, "z", 100.5, era=0)).members == ("x", "y", "z")


def test_of_workers_by_hand_nobody_knows_that_all_are_there():
    it = Rendezvous(wanted=1, smallest=1, gather=GATHER, patience=PATIENCE, by_hand=True)
    it.resume(REUNION, 7)
    assert ask(it, "new", 100.0, era=0) == []
    assert it.next_deadline() == 100.0 + PATIENCE
