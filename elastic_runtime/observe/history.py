"""A job's story so far: the fold of its events, from which live view, summary and report are made.

Events go in one by one, in any order that files and restarted masters make; out come the lives of the pods,
the counts by cause, and the curves. It knows nothing of budgets or leases, only what happened.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from elastic_runtime.observe.events import (
    CheckpointSaved,
    EpochFinished,
    Evaluation,
    Event,
    JobEnded,
    JobStarted,
    ModelRestored,
    PodEnded,
    PodRunning,
    PodStarted,
    PodWaiting,
    Sample,
    ShardRequeued,
    WorldFormed,
)

LOST_CAUSES = frozenset({"preempted", "node_lost", "out_of_memory", "error", "never_started", "unknown"})


@dataclass(slots=True)
class PodLife:
    """One life of a pod: asked for, perhaps running, perhaps ended. Its replacement is another life."""

    name: str
    role: str
    index: int
    started: float
    because: str = ""
    running: float | None = None
    ended: float | None = None
    cause: str = ""
    exit_code: int | None = None
    detail: str = ""

    @property
    def state(self) -> str:
        """`pending`, `running` or `ended`."""
        if self.ended is not None:
            return "ended"
        return "pending" if self.running is None else "running"

    @property
    def lost(self) -> bool:
        """Whether it ended other than by finishing or leaving in order."""
        return self.ended is not None and self.cause in LOST_CAUSES


@dataclass(slots=True)
class History:
    """What is known of a job from its events."""

    job: str = ""
    strategy: str = ""
    epochs: int = 0
    records_total: int = 0
    started: float | None = None
    latest: float = 0.0
    status: str = "running"
    error: str = ""
    ended: float | None = None
    restarts: list[float] = field(default_factory=list)
    pods: list[PodLife] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    last_sample: Sample | None = None
    evaluations: list[Evaluation] = field(default_factory=list)
    checkpoints: list[CheckpointSaved] = field(default_factory=list)
    restores: list[ModelRestored] = field(default_factory=list)
    requeued: list[ShardRequeued] = field(default_factory=list)
    finished_epochs: list[EpochFinished] = field(default_factory=list)
    worlds: list[WorldFormed] = field(default_factory=list)
    recent: deque[Event] = field(default_factory=lambda: deque(maxlen=16))
    _latest: dict[str, PodLife] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """The history told by these events."""
        history = cls()
        for event in events:
            history.add(event)
        return history

    @property
    def begin(self) -> float:
        """When the job started, as far as is known."""
        return self.latest if self.started is None else self.started

    @property
    def seconds(self) -> float:
        """From the job's start to its end, or to the latest event."""
        return max(0.0, (self.latest if self.ended is None else self.ended) - self.begin)

    @property
    def records_done(self) -> int:
        """Records done when last heard of."""
        return self.last_sample.records_done if self.last_sample else 0

    @property
    def records_retrained(self) -> int:
        """Records trained more than once: of shards that came back and of models that went back."""
        return sum(e.records for e in self.requeued) + sum(e.records_again for e in self.restores)

    @property
    def relaunches(self) -> Counter[str]:
        """How many pods were started again, by what had ended their predecessor."""
        return Counter(pod.because for pod in self.pods if pod.because)

    @property
    def workers(self) -> list[PodLife]:
        """The lives of the workers."""
        return [pod for pod in self.pods if pod.role == "worker"]

    @property
    def current_pods(self) -> list[PodLife]:
        """The latest life of each pod, in the order of their first start."""
        return list(self._latest.values())

    def life(self, pod: str) -> PodLife | None:
        """The latest life of a pod, if it is known."""
        return self._latest.get(pod)

    def worker_steps(self) -> list[tuple[float, int]]:
        """The number of running workers from each moment at which it changed."""
        changes: Counter[float] = Counter()
        for pod in self.workers:
            if pod.running is not None:
                changes[pod.running] += 1
                if pod.ended is not None:
                    changes[max(pod.ended, pod.running)] -= 1
        running, steps = 0, []
        for time, change in sorted(changes.items()):
            running += change
            steps.append((time, running))
        return steps

    def add(self, event: Event) -> None:
        """Take one event in."""
        if self.started is None:
            self.started = event.time
        self.latest = max(self.latest, event.time)
        if not isinstance(event, Sample):
            self.recent.append(event)
        match event:
            case JobStarted():
                self._job_started(event)
            case PodStarted() | PodWaiting() | PodRunning() | PodEnded():
                self._pod_changed(event)
            case Sample():
                self.samples.append(event)
                if self.last_sample is None or event.time >= self.last_sample.time:
                    self.last_sample = event
            case Evaluation():
                self.evaluations.append(event)
            case CheckpointSaved():
                self.checkpoints.append(event)
            case ModelRestored():
                self.restores.append(event)
            case ShardRequeued():
                self.requeued.append(event)
            case WorldFormed():
                self.worlds.append(event)
            case EpochFinished():
                self.finished_epochs.append(event)
            case JobEnded():
                self.status, self.error, self.ended = event.status, event.error, event.time
            case _:
                pass

    def _job_started(self, event: JobStarted) -> None:
        self.job, self.strategy = event.job, event.strategy or self.strategy
        self.epochs = event.epochs or self.epochs
        self.records_total = event.records_total or self.records_total
        self.status, self.error, self.ended = "running", "", None
        if event.resumed:
            self.restarts.append(event.time)

    def _pod_changed(self, event: PodStarted | PodWaiting | PodRunning | PodEnded) -> None:
        life = self._latest.get(event.pod)
        if life is not None and life.ended is not None:
            life = None
        if life is not None and isinstance(event, PodStarted):
            life.ended, life.cause = event.time, "unknown"
            life = None
        if life is None:
            life = PodLife(event.pod, event.role, 0, event.time)
            self._latest[event.pod] = life
            self.pods.append(life)
        match event:
            case PodStarted():
                life.index, life.because = event.index, event.because
            case PodWaiting():
                life.detail = event.detail
            case PodRunning():
                life.running = event.time if life.running is None else life.running
                life.detail = ""
            case PodEnded():
                life.ended, life.cause = event.time, event.cause
                life.exit_code, life.detail = event.exit_code, event.detail or life.detail
