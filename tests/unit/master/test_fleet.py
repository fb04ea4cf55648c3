"""The fleet, event by event: what a job does about pods that come, go, and come to nothing."""

import json

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.master.fleet import (
    Begin,
    BelowMinimum,
    Drain,
    FailJob,
    Finish,
    Fleet,
    FleetConfig,
    GaveUp,
    PodEnded,
    PodRunning,
    PodSeen,
    PsLost,
    Recovered,
    Scale,
    StartPod,
    StopPod,
    Tick,
    WorkerGone,
    WorkerLeft,
)
from elastic_runtime.platform.pods import ExitCause, Phase, Pod, Role, pod_name

W = [pod_name("j", Role.WORKER, n) for n in range(20)]
PS = [pod_name("j", Role.PS, n) for n in range(3)]
FREE = [ExitCause.PREEMPTED, ExitCause.NODE_LOST, ExitCause.DRAINED]


def a_fleet(workers=2, ps=1, **options):
    return Fleet(FleetConfig(job="j", num_workers=workers, num_ps=ps, **options))


def serving(workers=2, ps=1, **options):
    fleet = a_fleet(workers, ps, **options)
    for effect in fleet.handle(Begin(0.0)):
        fleet.handle(PodRunning(effect.name))
    return fleet


def ended(name, cause, now=10.0, code=1, detail="exit code 1: ValueError: boom"):
    return PodEnded(name, cause, code, detail, now)


def worker(number, index, cause=""):
    return StartPod(W[number], Role.WORKER, index, cause)


def ps(index, cause=""):
    return StartPod(PS[index], Role.PS, index, cause)


def pod(name, role, index, phase=Phase.RUNNING, cause=None):
    return Pod(name, role, index, phase, started=0.0, cause=cause)


def successor(fleet, **options):
    """A fleet that got the state of the first through the journal."""
    heir = a_fleet(**options)
    heir.restore(json.loads(json.dumps(fleet.state())))
    return heir


def test_a_job_begins_with_its_parameter_servers_and_then_its_workers():
    assert a_fleet(workers=2, ps=2).handle(Begin(0.0)) == [ps(0), ps(1), worker(0, 0), worker(1, 1)]


def test_workers_started_by_hand_are_not_started_again_by_the_fleet():
    assert a_fleet(external_workers=True).handle(Begin(0.0)) == [ps(0)]


@pytest.mark.parametrize("cause", FREE)
def test_what_the_program_did_not_cause_is_replaced_at_once_and_for_ever(cause):
    fleet = serving(workers=1)
    for n in range(15):
        assert fleet.handle(ended(W[n], cause))[:2] == [WorkerGone(W[n], cause), worker(n + 1, 0, cause)]
    assert fleet.relaunches == {cause: 15}


def test_a_replacement_inherits_the_seat_but_never_the_name():
    fleet = serving(workers=3)
    assert worker(3, 1, "preempted") in fleet.handle(ended(W[1], ExitCause.PREEMPTED))
    assert worker(4, 0, "preempted") in fleet.handle(ended(W[0], ExitCause.PREEMPTED))
    assert worker(5, 1, "preempted") in fleet.handle(ended(W[3], ExitCause.PREEMPTED))


@pytest.mark.parametrize("cause", [*FREE, ExitCause.COMPLETED, ExitCause.ERROR])
def test_a_lost_parameter_server_is_told_and_replaced_under_its_name(cause):
    assert serving(ps=2).handle(ended(PS[1], cause)) == [PsLost(1, PS[1]), ps(1, cause)]


def test_a_worker_without_more_work_is_not_replaced():
    fleet = serving()
    fleet.handle(WorkerLeft(W[0], "completed"))
    assert fleet.handle(ended(W[0], ExitCause.COMPLETED, code=0)) == [WorkerGone(W[0], ExitCause.COMPLETED)]
    assert fleet.next_deadline() is None


def test_a_worker_that_said_it_was_done_may_crash_on_its_way_out():
    fleet = serving()
    fleet.handle(WorkerLeft(W[0], "completed"))
    assert fleet.handle(ended(W[0], ExitCause.ERROR, code=139)) == [WorkerGone(W[0], ExitCause.COMPLETED)]


def test_a_drained_worker_is_replaced_whatever_its_exit_code():
    fleet = serving()
    fleet.handle(WorkerLeft(W[0], "drained"))
    assert fleet.handle(ended(W[0], ExitCause.COMPLETED, code=0))[1] == worker(2, 0, "drained")


@pytest.mark.parametrize("code", [75, 137, 0, None])
def test_a_worker_that_drained_as_it_was_evicted_for_an_error_of_its_own_is_charged_with_it(code):
    """Its node gives it the time to say goodbye, and the exit code is that of anyone who is told to go."""
    fleet = serving(workers=1, relaunch_on_worker_failure=0)
    fleet.handle(WorkerLeft(W[0], "drained"))
    evicted = ended(W[0], ExitCause.ERROR, code=code, detail="evicted by its node")
    assert isinstance(fleet.handle(evicted)[-1], FailJob)


@pytest.mark.parametrize(("said", "code"), [("drained", 139), ("completed", 137)])
def test_a_worker_that_crashes_on_its_way_out_or_had_no_more_work_is_not_charged(said, code):
    fleet = serving(workers=1, relaunch_on_worker_failure=0)
    fleet.handle(WorkerLeft(W[0], said))
    assert fleet.handle(ended(W[0], ExitCause.ERROR, code=code))[0].cause == said


def test_code_zero_without_a_word_is_an_error_not_an_end_of_work():
    fleet = serving(workers=1)
    assert fleet.handle(ended(W[0], ExitCause.COMPLETED, code=0))[1] == worker(1, 0, "error")
    failed = fleet.handle(ended(W[1], ExitCause.COMPLETED, code=0))[-1]
    assert isinstance(failed, FailJob)
    assert "before the work was done" in failed.reason


@pytest.mark.parametrize(
    ("cause", "option", "words"),
    [
        (ExitCause.ERROR, "relaunch_on_worker_failure", "failed: "),
        (ExitCause.OUT_OF_MEMORY, "relaunch_on_out_of_memory", "ran out of memory"),
        (ExitCause.NEVER_STARTED, "relaunch_on_failed_start", "could not be started"),
    ],
)
@pytest.mark.parametrize("budget", [0, 1, 3])
def test_the_job_fails_when_the_budget_of_a_cause_is_used_up(cause, option, words, budget):
    fleet = serving(workers=1, **{option: budget})
    now = 0.0
    for n in range(budget):
        fleet.handle(ended(W[n], cause, now))
        now = max(now, fleet.next_deadline() or 0.0)
        fleet.handle(Tick(now))
        fleet.handle(PodRunning(W[n + 1]))
    gone, failed = fleet.handle(ended(W[budget], cause, now))
    assert gone == WorkerGone(W[budget], cause)
    assert isinstance(failed, FailJob)
    for part in (W[budget], words, "exit code 1: ValueError: boom", f"logs/{W[budget]}.log", f"{budget} of"):
        assert part in failed.reason
    assert "\n" not in failed.reason


@pytest.mark.parametrize("cause", [ExitCause.ERROR, ExitCause.OUT_OF_MEMORY])
def test_a_job_that_fails_for_lack_of_memory_says_what_gives_more(cause):
    none = {"relaunch_on_out_of_memory": 0, "relaunch_on_worker_failure": 0}
    fleet = serving(workers=1, more_memory={Role.WORKER: "add some"}, **none)
    _, failed = fleet.handle(ended(W[0], cause))
    assert ("(add some; 0 of 0" in failed.reason) == (cause is ExitCause.OUT_OF_MEMORY)


def test_errors_of_two_lines_of_workers_do_not_add_up():
    fleet = serving(workers=2)
    assert fleet.handle(ended(W[0], ExitCause.ERROR))[1] == worker(2, 0, "error")
    assert fleet.handle(ended(W[1], ExitCause.ERROR))[1] == worker(3, 1, "error")


def test_the_job_goes_on_without_a_line_of_workers_that_is_given_up():
    fleet = serving(workers=2)
    fleet.handle(ended(W[0], ExitCause.ERROR))
    assert isinstance(fleet.handle(ended(W[2], ExitCause.ERROR))[-1], GaveUp)
    assert fleet.handle(ended(W[1], ExitCause.PREEMPTED))[1] == worker(3, 1, "preempted")


def test_the_job_fails_when_the_lines_that_are_left_cannot_reach_the_minimum():
    fleet = serving(workers=2, min_workers=2, relaunch_on_worker_failure=0)
    assert isinstance(fleet.handle(ended(W[0], ExitCause.ERROR))[-1], FailJob)


def test_the_job_fails_when_all_its_workers_together_failed_too_often():
    fleet = serving(workers=4, relaunch_on_worker_failure=9, max_worker_failures=2)
    fleet.handle(ended(W[0], ExitCause.ERROR))
    fleet.handle(ended(W[1], ExitCause.ERROR))
    assert "2 of 2" not in str(fleet.handle(ended(W[2], ExitCause.PREEMPTED)))
    assert isinstance(fleet.handle(ended(W[3], ExitCause.ERROR))[-1], FailJob)


def test_repeated_errors_wait_longer_each_time_but_preemption_does_not_wait():
    fleet = serving(workers=1, relaunch_on_worker_failure=10, backoff=2.0, max_backoff=10.0)
    name, waits = W[0], []
    for _ in range(6):
        fleet.handle(ended(name, ExitCause.ERROR, 100.0))
        waits.append((fleet.next_deadline() or 100.0) - 100.0)
        (start,) = fleet.handle(Tick(100.0 + waits[-1])) if waits[-1] else [worker(1, 0)]
        name = start.name
    assert waits == [0.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert fleet.handle(ended(name, ExitCause.PREEMPTED, 200.0))[1].relaunched_because == "preempted"


def test_nothing_is_started_before_the_wait_is_over():
    fleet = serving(workers=1, relaunch_on_worker_failure=2)
    fleet.handle(ended(W[0], ExitCause.ERROR, 0.0))
    fleet.handle(ended(W[1], ExitCause.ERROR, 0.0))
    assert fleet.handle(Tick(fleet.next_deadline() - 0.001)) == []
    assert fleet.handle(Tick(fleet.next_deadline())) == [worker(2, 0, "error")]


def test_below_the_minimum_the_job_waits_and_says_so_once():
    fleet = serving(workers=3, min_workers=2)
    assert BelowMinimum not in map(type, fleet.handle(ended(W[0], ExitCause.PREEMPTED)))
    assert fleet.handle(ended(W[1], ExitCause.PREEMPTED))[-1] == BelowMinimum(1, 2)
    assert BelowMinimum not in map(type, fleet.handle(ended(W[2], ExitCause.PREEMPTED)))
    assert fleet.handle(PodRunning(W[3])) == []
    assert fleet.handle(PodRunning(W[4])) == [Recovered(2)]


def test_workers_that_leave_because_the_work_is_over_are_not_missed():
    fleet = serving(workers=2, min_workers=2)
    fleet.handle(WorkerLeft(W[0], "completed"))
    assert BelowMinimum not in map(type, fleet.handle(ended(W[0], ExitCause.COMPLETED, code=0)))


def test_scaling_up_starts_new_seats_and_scaling_down_stops_the_last_ones():
    fleet = serving(workers=2)
    assert fleet.handle(Scale(4, 5.0)) == [worker(2, 2), worker(3, 3)]
    assert fleet.handle(Scale(1, 6.0)) == [StopPod(name, 30.0) for name in (W[1], W[2], W[3])]
    assert fleet.handle(ended(W[3], ExitCause.DRAINED)) == [WorkerGone(W[3], ExitCause.DRAINED)]
    assert fleet.relaunches == {}


def test_scaling_up_again_waits_for_the_seats_former_pod_to_be_gone():
    fleet = serving(workers=2)
    fleet.handle(Scale(1, 5.0))
    assert fleet.handle(Scale(2, 6.0)) == []
    assert fleet.handle(ended(W[1], ExitCause.DRAINED)) == [WorkerGone(W[1], ExitCause.DRAINED), worker(2, 1)]


@pytest.mark.parametrize("size", [0, 1, -3])
def test_scaling_below_the_minimum_is_refused(size):
    with pytest.raises(InputError, match="at least 2"):
        serving(workers=3, min_workers=2).handle(Scale(size, 0.0))


def test_a_draining_fleet_replaces_nothing_but_still_tells():
    fleet = serving()
    assert fleet.handle(Drain()) == []
    assert fleet.handle(ended(W[0], ExitCause.PREEMPTED)) == [WorkerGone(W[0], ExitCause.PREEMPTED)]
    assert fleet.handle(ended(PS[0], ExitCause.PREEMPTED)) == [PsLost(0, PS[0])]
    assert fleet.handle(Tick(1e9)) == []
    assert fleet.next_deadline() is None


def test_finishing_stops_every_pod_and_their_ends_are_no_loss():
    fleet = serving()
    assert fleet.handle(Finish(3.0)) == [StopPod(name, 3.0) for name in (PS[0], W[0], W[1])]
    assert fleet.handle(ended(PS[0], ExitCause.PREEMPTED)) == []
    assert fleet.handle(ended(W[0], ExitCause.COMPLETED, code=0)) == [WorkerGone(W[0], ExitCause.COMPLETED)]
    assert fleet.handle(Drain()) == []
    assert fleet.handle(Begin(9.0)) == []


def test_deleting_every_pod_at_once_brings_the_whole_fleet_back():
    fleet = serving(workers=3, ps=2)
    effects = [e for name in (*PS[:2], *W[:3]) for e in fleet.handle(ended(name, ExitCause.PREEMPTED))]
    started = [e for e in effects if isinstance(e, StartPod)]
    assert [(s.role, s.index) for s in started] == [
        (Role.PS, 0),
        (Role.PS, 1),
        *((Role.WORKER, i) for i in range(3)),
    ]


def test_news_of_pods_the_fleet_does_not_have_change_nothing():
    fleet = serving()
    before = fleet.state()
    for event in (
        ended("stranger", ExitCause.ERROR),
        PodRunning("stranger"),
        WorkerLeft("stranger", "drained"),
    ):
        assert fleet.handle(event) == []
    assert fleet.state() == before


def test_an_end_told_twice_is_answered_once():
    fleet = serving()
    fleet.handle(ended(W[0], ExitCause.PREEMPTED))
    assert fleet.handle(ended(W[0], ExitCause.PREEMPTED)) == []


class TestSuccessor:
    """A master that takes over from one that was killed."""

    def test_running_pods_are_adopted_and_nothing_is_started(self):
        heir = successor(serving())
        for name, role, index in ((PS[0], Role.PS, 0), (W[0], Role.WORKER, 0), (W[1], Role.WORKER, 1)):
            assert heir.handle(PodSeen(pod(name, role, index), 1.0)) == []
        assert heir.handle(Begin(1.0)) == []
        assert heir.running_workers == 2

    def test_pods_that_ended_meanwhile_are_replaced(self):
        heir = successor(serving())
        heir.handle(PodSeen(pod(W[1], Role.WORKER, 1), 1.0))
        assert heir.handle(Begin(1.0)) == [
            PsLost(0, PS[0]),
            WorkerGone(W[0], ExitCause.PREEMPTED),
            ps(0, "preempted"),
            worker(2, 0, "preempted"),
        ]

    def test_an_exit_record_tells_why_a_pod_ended_meanwhile(self):
        heir = successor(serving(workers=1, ps=0, relaunch_on_worker_failure=0), relaunch_on_worker_failure=0)
        seen = PodSeen(pod(W[0], Role.WORKER, 0, Phase.ENDED, ExitCause.ERROR), 1.0)
        assert isinstance(heir.handle(seen)[-1], FailJob)

    def test_a_start_that_was_decided_but_not_done_is_asked_for_by_the_same_name(self):
        fleet = a_fleet()
        fleet.handle(Begin(0.0))
        assert successor(fleet).handle(Begin(1.0)) == [ps(0), worker(0, 0), worker(1, 1)]

    def test_the_record_of_a_former_parameter_server_does_not_end_its_replacement(self):
        fleet = serving(workers=0, ps=1)
        fleet.handle(ended(PS[0], ExitCause.ERROR))
        heir = successor(fleet, workers=0)
        assert heir.handle(PodSeen(pod(PS[0], Role.PS, 0, Phase.ENDED, ExitCause.ERROR), 1.0)) == []
        assert heir.handle(Begin(1.0)) == [ps(0, "error")]
        assert heir.relaunches == {"error": 1}

    def test_a_worker_that_was_being_stopped_is_stopped_again(self):
        fleet = serving()
        fleet.handle(Scale(1, 0.0))
        heir = successor(fleet)
        assert heir.handle(PodSeen(pod(W[1], Role.WORKER, 1), 1.0)) == [StopPod(W[1], 30.0)]

    def test_budgets_and_waits_survive(self):
        fleet = serving(workers=1, ps=0, relaunch_on_worker_failure=2)
        fleet.handle(ended(W[0], ExitCause.ERROR, 0.0))
        fleet.handle(ended(W[1], ExitCause.ERROR, 0.0))
        heir = successor(fleet, relaunch_on_worker_failure=2)
        assert heir.handle(Begin(0.5)) == []
        assert heir.next_deadline() == 1.0
        assert heir.handle(Tick(1.0)) == [worker(2, 0, "error")]
        assert isinstance(heir.handle(ended(W[2], ExitCause.ERROR, 2.0))[-1], FailJob)

    def test_a_finished_fleet_stays_finished_and_stops_what_is_left(self):
        fleet = serving()
        fleet.handle(Finish(1.0))
        heir = successor(fleet)
        assert heir.handle(PodSeen(pod(W[0], Role.WORKER, 0), 1.0)) == [StopPod(W[0], 30.0)]
        assert not [e for e in heir.handle(Begin(1.0)) if isinstance(e, StartPod)]


class TestWithoutAJournal:
    """A master that finds pods but no state."""

    def test_pods_that_fit_a_seat_are_adopted_and_their_numbers_never_given_again(self):
        fleet = a_fleet(workers=2, ps=1)
        fleet.handle(PodSeen(pod(PS[0], Role.PS, 0), 0.0))
        fleet.handle(PodSeen(pod(W[7], Role.WORKER, 1), 0.0))
        assert fleet.handle(Begin(0.0)) == [worker(8, 0)]

    @pytest.mark.parametrize(
        "stray",
        [pod(W[9], Role.WORKER, 5), pod(W[3], Role.WORKER, 0), pod(PS[2], Role.PS, 2)],
        ids=["beyond the size", "seat taken", "too many servers"],
    )
    def test_pods_that_fit_nowhere_are_stopped(self, stray):
        fleet = a_fleet(workers=1)
        fleet.handle(PodSeen(pod(W[2], Role.WORKER, 0), 0.0))
        assert fleet.handle(PodSeen(stray, 0.0)) == [StopPod(stray.name, 30.0)]

    def test_pods_that_ended_long_ago_mean_nothing(self):
        fleet = a_fleet(workers=1, ps=0)
        assert fleet.handle(PodSeen(pod(W[2], Role.WORKER, 0, Phase.ENDED, ExitCause.ERROR), 0.0)) == []
        assert fleet.handle(Begin(0.0)) == [worker(3, 0)]

    def test_the_master_is_not_a_pod_of_the_fleet(self):
        assert a_fleet().handle(PodSeen(pod("elasticdl-j-master", Role.MASTER, 0), 0.0)) == []
