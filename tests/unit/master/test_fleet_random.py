"""The fleet in a random world: pods that start late, die at any time, and masters that are killed in between.

The world keeps what a platform would: who is alive. Effects that a killed master had decided but not
carried out are lost, as they are in life; everything else follows from what the fleet is told.
"""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_runtime.master.fleet import (
    Begin,
    FailJob,
    Finish,
    Fleet,
    FleetConfig,
    PodEnded,
    PodRunning,
    PodSeen,
    Scale,
    StartPod,
    StopPod,
    Tick,
    WorkerLeft,
)
from elastic_runtime.platform.pods import ExitCause, Phase, Pod, Role

FREE = [ExitCause.PREEMPTED, ExitCause.NODE_LOST, ExitCause.DRAINED]
COSTLY = [ExitCause.ERROR, ExitCause.OUT_OF_MEMORY, ExitCause.NEVER_STARTED, ExitCause.COMPLETED]
CONFIG = FleetConfig(job="j", num_workers=3, num_ps=2, relaunch_on_worker_failure=2)


class World:
    """A fleet, the pods that are alive, and the effects not yet carried out."""

    def __init__(self):
        self.now = 0.0
        self.alive: dict[str, Pod] = {}
        self.ended: dict[str, Pod] = {}
        self.worker_names: set[str] = set()
        self.to_do: list[StartPod | StopPod] = []
        self.failed = False
        self.fleet = Fleet(CONFIG)
        self.state = json.dumps(self.fleet.state())
        self.tell(Begin(self.now))

    def tell(self, event):
        effects = self.fleet.handle(event)
        self.state = json.dumps(self.fleet.state())
        self.failed |= any(isinstance(effect, FailJob) for effect in effects)
        self.to_do += [effect for effect in effects if isinstance(effect, StartPod | StopPod)]

    def carry_out(self, pick):
        if self.to_do:
            match self.to_do.pop(pick % len(self.to_do)):
                case StartPod(name, role, index):
                    self.start(name, role, index)
                case StopPod(name):
                    self.end(name, ExitCause.DRAINED)

    def start(self, name, role, index):
        if name not in self.alive:
            if role is Role.WORKER:
                assert name not in self.worker_names, "a worker's name was used before"
                self.worker_names.add(name)
            self.alive[name] = Pod(name, role, index, Phase.RUNNING, self.now)
            seats = [(pod.role, pod.index) for pod in self.alive.values()]
            assert len(seats) == len(set(seats)), "two pods in one seat"
        self.tell(PodRunning(name))

    def end(self, name, cause, *, unseen=False):
        if pod := self.alive.pop(name, None):
            self.ended[name] = Pod(name, pod.role, pod.index, Phase.ENDED, pod.started, cause=cause)
            if not unseen:
                self.tell(PodEnded(name, cause, 1, "", self.now))

    def pick(self, number):
        names = sorted(self.alive)
        return names[number % len(names)] if names else "nobody"

    def restart_master(self):
        self.to_do.clear()
        self.fleet = Fleet(CONFIG)
        self.fleet.restore(json.loads(self.state))
        for pod in [*self.ended.values(), *self.alive.values()]:
            if pod.phase is not Phase.ENDED or pod.name not in self.alive:
                self.tell(PodSeen(pod, self.now))
        self.tell(Begin(self.now))

    def step(self, action, number):
        self.now += 1.0
        match action:
            case "carry out":
                self.carry_out(number)
            case "carry out the last first":
                self.carry_out(-1)
            case "lose":
                self.end(self.pick(number), FREE[number % 3])
            case "break":
                self.end(self.pick(number), COSTLY[number % 4])
            case "lose unseen, master too":
                self.end(self.pick(number), FREE[number % 3], unseen=True)
                self.restart_master()
            case "leave":
                self.tell(WorkerLeft(self.pick(number), "drained"))
            case "scale":
                self.tell(Scale(1 + number % 5, self.now))
            case "restart":
                self.restart_master()
            case "tick":
                self.tell(Tick(self.now))

    def settle(self):
        """Nothing fails any more: let everything decided happen, and time pass."""
        while self.to_do or self.fleet.next_deadline() is not None:
            self.now += 100.0
            self.carry_out(0)
            self.tell(Tick(self.now))


HARMLESS = [
    *("carry out", "carry out", "carry out the last first", "tick"),
    *("lose", "lose unseen, master too", "leave", "scale", "scale", "restart"),
]


def steps(actions):
    return st.lists(st.tuples(st.sampled_from(actions), st.integers(0, 59)), max_size=60)


@settings(max_examples=400, deadline=None)
@given(steps(HARMLESS))
def test_whatever_is_lost_the_fleet_comes_back_to_its_size(run):
    world = World()
    for action, number in run:
        world.step(action, number)
    world.settle()
    seats = {(pod.role, pod.index) for pod in world.alive.values()}
    wanted = {(Role.WORKER, index) for index in range(world.fleet.num_workers)}
    assert seats == wanted | {(Role.PS, 0), (Role.PS, 1)}
    assert len(world.alive) == len(seats)
    assert not world.failed


@settings(max_examples=400, deadline=None)
@given(steps([*HARMLESS, "break", "break"]))
def test_with_errors_too_a_job_is_complete_or_has_lost_lines_or_fails(run):
    world = World()
    for action, number in run:
        world.step(action, number)
    world.settle()
    given_up = [seat for seat in world.fleet.state()["seats"] if seat["state"] in ("given_up", "completed")]
    missing = {("worker", seat["index"]) for seat in given_up if seat["index"] < world.fleet.num_workers}
    wanted = world.fleet.num_workers + 2 - len(missing)
    assert world.failed or len(world.alive) == wanted


@settings(max_examples=200, deadline=None)
@given(steps([*HARMLESS, "break"]))
def test_after_the_finish_nothing_is_left_alive_whatever_happened_before(run):
    world = World()
    for action, number in run:
        world.step(action, number)
    world.to_do = [effect for effect in world.to_do if isinstance(effect, StopPod)]
    world.tell(Finish(1.0))
    world.settle()
    assert not world.alive


@settings(max_examples=100, deadline=None)
@given(steps([*HARMLESS, "break"]))
def test_the_same_events_give_the_same_decisions(run):
    first, second = World(), World()
    for action, number in run:
        first.step(action, number)
        second.step(action, number)
    assert first.state == second.state
    assert first.to_do == second.to_do
