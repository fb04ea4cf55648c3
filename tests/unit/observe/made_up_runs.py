"""Jobs as the master would tell them, made up but lifelike: short, long, large, failing, empty."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from elastic_runtime.observe import events as ev
from elastic_runtime.observe.events import Event
from elastic_runtime.observe.report import Fact
from elastic_runtime.observe.thinning import Thinner

BEGIN = 1_586_832_400.0

FACTS = (
    Fact("model_def", "mnist.mnist_functional_api.custom_model"),
    Fact("training_data", "/data/mnist/train"),
    Fact("num_workers", "4", "1"),
    Fact("minibatch_size", "64", "64"),
    Fact("evaluation_steps", "50", "0"),
)


def pod(role: str, index: int, job: str = "mnist") -> str:
    return f"elasticdl-{job}-{role}" if role == "master" else f"elasticdl-{job}-{role}-{index}"


class Story:
    """Collects the events of a job; times are seconds since its start."""

    def __init__(
        self,
        job: str = "mnist",
        *,
        records: int = 12_000,
        epochs: int = 2,
        seed: int = 1,
        strategy: str = "ParameterServerStrategy",
    ) -> None:
        self.job, self.records, self.epochs = job, records, epochs
        self.random = random.Random(seed)
        self.events: list[Event] = []
        self.add(
            ev.JobStarted,
            0,
            job=job,
            strategy=strategy,
            epochs=epochs,
            records_total=records,
        )

    def add(self, cls: type[Event], at: float, **values: object) -> None:
        self.events.append(cls(time=BEGIN + at, **values))  # type: ignore[arg-type]

    def start(self, role: str, index: int, at: float, *, runs_after: float = 1.5, because: str = "") -> None:
        name = pod(role, index, self.job)
        self.add(ev.PodStarted, at, pod=name, role=role, index=index, because=because)
        if math.isfinite(runs_after):
            self.add(ev.PodRunning, at + runs_after, pod=name, role=role)
            if role == "worker":
                self.add(ev.WorkerJoined, at + runs_after + 1.2, worker=name)

    def end(self, role: str, index: int, at: float, *how: object) -> None:
        cause, code, detail = [*how, *("completed", 0, "")[len(how) :]]
        name = pod(role, index, self.job)
        self.add(ev.PodEnded, at, pod=name, role=role, cause=cause, exit_code=code, detail=detail)

    def world(self, at: float, workers: int, change: str = "") -> None:
        number = 1 + sum(isinstance(event, ev.WorldFormed) for event in self.events)
        self.add(ev.WorldFormed, at, world=number, workers=workers, change=change)

    def samples(
        self,
        begin: float,
        end: float,
        every: float,
        *,
        wanted: int = 4,
        nan_from: float = math.inf,
        done: float = 1.0,
    ) -> None:
        """Loss falls, pace follows the workers running; what a thinning recorder would have kept of it."""
        thinner = Thinner(started=BEGIN)
        changes = self._worker_changes()
        at, version = begin, 0
        pace = self.records * done / (end - begin) / max(1, wanted)
        while at < end:
            share = (at - begin) / (end - begin)
            running = sum(change for time, change in changes if time <= at)
            loss = (
                0.06
                + 2.3 * math.exp(-9 * share) * self.random.uniform(0.8, 1.25)
                + self.random.gauss(0, 0.012)
            )
            sample = ev.Sample(
                time=BEGIN + at,
                records_done=int(self.records * done * share),
                records_per_second=pace * running * self.random.uniform(0.85, 1.1),
                loss=math.nan if at >= nan_from else max(0.01, loss),
                version=version,
                epoch=1 + int(0.999 * self.epochs * share),
                learning_rate=0.1 if share < 0.5 else 0.01,
                workers_running=running,
                workers_wanted=wanted,
                training_seconds=(at - begin) * 0.97,
            )
            self.events += thinner.offer(sample)
            at, version = at + every, version + 3
        self.events += thinner.flush()
        last = next(e for e in reversed(self.events) if isinstance(e, ev.Sample))
        self.events.append(replace(last, time=BEGIN + end, records_done=int(self.records * done)))

    def evaluations(self, begin: float, end: float, number: int) -> None:
        for i in range(1, number + 1):
            share = i / number
            accuracy = 0.974 - 0.75 * math.exp(-6 * share) + self.random.gauss(0, 0.004)
            metrics = {"accuracy": accuracy, "loss": 0.08 + 2 * math.exp(-5 * share)}
            self.add(ev.Evaluation, begin + (end - begin) * share, version=50 * i, metrics=metrics)

    def finish(self, at: float, status: str = "succeeded", error: str = "") -> list[Event]:
        self.add(ev.JobEnded, at, status=status, error=error)
        return sorted(self.events, key=lambda e: e.time)

    def _worker_changes(self) -> list[tuple[float, int]]:
        def changes() -> Iterator[tuple[float, int]]:
            for event in self.events:
                if isinstance(event, ev.PodRunning) and event.role == "worker":
                    yield event.time - BEGIN, 1
                elif isinstance(event, ev.PodEnded) and event.role == "worker":
                    yield event.time - BEGIN, -1

        return list(changes())


@cache
def mnist() -> list[Event]:
    """A laptop's job of 68 seconds: two workers killed, one drained, a parameter server lost."""
    story = Story()
    story.start("ps", 0, 0.2)
    for index in range(4):
        story.start("worker", index, 0.3 + 0.02 * index, runs_after=2 + 0.3 * index)
    story.end("worker", 1, 18.2, "preempted", 137, "killed")
    source = "/data/mnist/train/data-00001"
    story.add(
        ev.ShardRequeued, 18.25, worker=pod("worker", 1), source=source, start=1024, end=1152, records=64
    )
    story.start("worker", 4, 18.4, runs_after=3, because="preempted")
    story.end("ps", 0, 31.0, "error", 1, "MemoryError: cannot allocate 40 MB")
    story.start("ps", 0, 31.2, because="error")
    story.add(ev.ModelRestored, 33, version=200, records_again=512, source="checkpoint")
    story.end("worker", 2, 44.5, "drained")
    story.end("worker", 3, 52.0, "out_of_memory", 137)
    story.add(ev.ShardRequeued, 52.1, worker=pod("worker", 3), source=source, start=0, end=128, records=128)
    story.start("worker", 5, 52.3, runs_after=2.5, because="out_of_memory")
    story.add(ev.EpochFinished, 36, epoch=1, records=6000)
    story.add(ev.EpochFinished, 65, epoch=2, records=6000)
    for i, at in enumerate((14, 28, 41, 55)):
        story.add(ev.CheckpointSaved, at, version=100 * (i + 1), seconds=0.2, bytes=4_800_000)
    for index in (0, 4, 5):
        story.end("worker", index, 66.5 + index / 10)
    story.end("ps", 0, 67.5)
    story.samples(4, 65, 0.25)
    story.evaluations(6, 66, 8)
    return story.finish(68)


@cache
def ten_seconds() -> list[Event]:
    story = Story("tiny", records=600, epochs=1)
    story.start("worker", 0, 0.1)
    story.end("worker", 0, 9.3)
    story.samples(2, 9, 1, wanted=1)
    story.evaluations(5, 9.1, 1)
    return story.finish(9.6)


@cache
def allreduce() -> list[Event]:
    """Six workers without a parameter server: two killed at once, one drained, two that join late."""
    story = Story("cifar10", records=50_000, epochs=4, seed=2, strategy="AllreduceStrategy")
    for index in range(4):
        story.start("worker", index, 0.4 + 0.02 * index, runs_after=2 + 0.2 * index)
    story.world(8, 4)
    for index in (1, 2):
        story.end("worker", index, 92.0 + index / 50, "preempted", 137, "killed by SIGKILL")
        story.start("worker", 3 + index, 94, runs_after=3 + index, because="preempted")
    story.world(93.1, 2, "without worker-1, worker-2")
    story.world(104, 4, "with worker-4, worker-5")
    for index in (6, 7):
        story.start("worker", index, 150, runs_after=8)
    story.world(163, 6, "with worker-6, worker-7")
    story.end("worker", 0, 220, "drained")
    story.world(221, 5, "without worker-0")
    for epoch in (1, 2, 3, 4):
        story.add(ev.EpochFinished, 75 * epoch, epoch=epoch, records=12_500)
    for i in range(5):
        story.add(ev.CheckpointSaved, 50 * (i + 1), version=200 * (i + 1), seconds=0.4, bytes=45_000_000)
    for index in (3, 4, 5, 6, 7):
        story.end("worker", index, 303 + index / 10)
    story.samples(9, 300, 1, wanted=6)
    story.evaluations(20, 302, 12)
    return story.finish(306)


@cache
def three_points() -> list[Event]:
    """One worker that has hardly begun."""
    story = Story("short", records=600, epochs=1)
    story.start("worker", 0, 0.1)
    story.samples(3, 9, 3, wanted=1)
    return story.events


@cache
def fifty_workers() -> list[Event]:
    """3 000 samples of a job whose capacity comes and goes in waves."""
    story = Story("imagenet", records=9_000_000, epochs=2, seed=7)
    for index in range(2):
        story.start("ps", index, 1)
    for index in range(50):
        story.start("worker", index, 2 + index, runs_after=story.random.uniform(5, 40))
        if index % 3 == 0:
            at = story.random.choice([900, 1900]) + story.random.uniform(0, 40)
            story.end("worker", index, at, "node_lost" if at > 1500 else "preempted", 137)
            story.start(
                "worker", 50 + index, at + 2, runs_after=story.random.uniform(60, 400), because="preempted"
            )
            story.end("worker", 50 + index, 2990)
        else:
            story.end("worker", index, 2990)
    for index in range(2):
        story.end("ps", index, 2998)
    for epoch in (1, 2):
        story.add(ev.EpochFinished, 1480 * epoch, epoch=epoch)
    story.events.sort(key=lambda e: e.time)
    story.samples(10, 2990, 1, wanted=50)
    story.evaluations(100, 2995, 40)
    return story.finish(3000)


@cache
def begun() -> list[Event]:
    """A job of which nothing but its beginning is known."""
    return Story("fresh").events


@cache
def week() -> list[Event]:
    """Seven days, eight workers, someone lost every few hours, a night without any."""
    day = 86_400.0
    story = Story("criteo", records=4_000_000_000, epochs=1, seed=3)
    story.start("ps", 0, 5)
    story.start("ps", 1, 5)
    index, at = 8, 600.0
    alive = list(range(8))
    for worker in alive:
        story.start("worker", worker, 10, runs_after=20 + 5 * worker)
    while (at := at + story.random.expovariate(1 / 9000)) < 6.9 * day:
        if 3.0 * day < at < 3.4 * day:
            continue
        lost = alive.pop(story.random.randrange(len(alive) - 1))
        cause = story.random.choice(["preempted"] * 6 + ["node_lost", "out_of_memory", "drained"])
        story.end("worker", lost, at, cause, 137)
        story.start("worker", index, at + 5, runs_after=story.random.uniform(20, 500), because=cause)
        story.add(
            ev.ShardRequeued,
            at,
            worker=pod("worker", lost),
            source="s3://b/c",
            start=0,
            end=4096,
            records=2048,
        )
        alive.append(index)
        index += 1
    for worker in alive:
        story.end("worker", worker, 7 * day - 60)
    for server in (0, 1):
        story.end("ps", server, 7 * day - 20)
    story.add(ev.EpochFinished, 7 * day - 90, epoch=1)
    for i in range(160):
        story.add(
            ev.CheckpointSaved, 3600.0 * (i + 1), version=5000 * (i + 1), seconds=9.5, bytes=2_400_000_000
        )
    story.events.sort(key=lambda e: e.time)
    story.samples(60, 7 * day - 100, 20, wanted=8)
    story.evaluations(3600, 7 * day - 50, 167)
    return story.finish(7 * day)


@cache
def five_hundred_workers() -> list[Event]:
    story = Story("big", records=90_000_000, epochs=3, seed=5)
    for index in range(8):
        story.start("ps", index, 1)
    for index in range(500):
        story.start("worker", index, 2 + index * 0.1, runs_after=story.random.uniform(5, 240))
    for index in range(500):
        if story.random.random() < 0.4:
            at = story.random.choice([900, 2200, 2200]) + story.random.expovariate(1 / 400)
            cause = story.random.choice(["preempted", "preempted", "drained", "node_lost"])
            story.end("worker", index, at, cause, 137)
            story.start(
                "worker", 500 + index, at + 2, runs_after=story.random.uniform(60, 900), because=cause
            )
            story.end("worker", 500 + index, max(at + 1000, 5390))
        else:
            story.end("worker", index, 5390)
    for index in range(8):
        story.end("ps", index, 5399)
    for epoch in (1, 2, 3):
        story.add(ev.EpochFinished, 1795 * epoch, epoch=epoch)
    story.events.sort(key=lambda e: e.time)
    story.samples(60, 5390, 5, wanted=500)
    story.evaluations(100, 5395, 20)
    return story.finish(5400)


@cache
def failure() -> list[Event]:
    story = Story("heart", records=3000, epochs=3)
    story.start("ps", 0, 0.2)
    story.start("worker", 0, 0.3, runs_after=2)
    story.start("worker", 1, 0.3, runs_after=math.inf)
    story.add(
        ev.PodWaiting, 2, pod=pod("worker", 1, "heart"), role="worker", detail="0/3 nodes: insufficient cpu"
    )
    error = "heart.py:41: KeyError: 'thal' (records 256-320 of /data/heart/data-00000, attempt 3 of 3)"
    story.end("worker", 0, 14, "error", 1, "KeyError: 'thal'")
    story.samples(4, 13, 1, wanted=2, done=0.2)
    return story.finish(15, "failed", error)


@cache
def extremes() -> list[Event]:
    """Names without an end, values beyond measure, and nine metrics of which some say nothing."""
    job = "recommendation-of-everything-to-everybody-2026-11-19t02-33-00-attempt-12"
    story = Story(job, records=3_000_000_000_000, epochs=40, seed=9)
    story.start("ps", 0, 1)
    for index in range(1000, 1004):
        story.start("worker", index, 2)
        story.end("worker", index, 500 + index / 10, "preempted", 137)
    story.end(
        "ps", 0, 700, "error", 1, "s3://bucket/" + "a-folder-with-a-long-name/" * 12 + ": no such object"
    )
    for epoch in range(1, 12):
        story.add(ev.EpochFinished, 50 * epoch, epoch=epoch)
    story.samples(10, 500, 2, wanted=1000)
    names = [
        "mean_absolute_percentage_error_of_the_click_through_rate",
        *(f"recall_at_{2**n}" for n in range(8)),
    ]
    powers = [10.0**power for power in range(-14, 13, 3)]
    for version in (1_000_000, 2_000_000, 3_000_000):
        metrics = {name: value * version for name, value in zip(names, powers, strict=True)}
        story.add(ev.Evaluation, version / 10_000, version=version, metrics=metrics)
    samples = [event for event in story.events if isinstance(event, ev.Sample)]
    story.events = [event for event in story.events if not isinstance(event, ev.Sample)]
    story.events += [
        replace(s, loss=1e9 * (s.loss or 1), records_per_second=1e9 * s.version) for s in samples
    ]
    return story.finish(701, "failed", "the parameter server cannot be started: " + "x" * 300)


@cache
def not_a_number() -> list[Event]:
    story = Story("diverged", records=6000, epochs=1)
    story.start("worker", 0, 0.1)
    story.samples(3, 40, 0.2, wanted=1, nan_from=22)
    story.add(ev.Evaluation, 15, version=100, metrics={"accuracy": 0.61})
    story.add(ev.Evaluation, 30, version=200, metrics={"accuracy": math.nan})
    story.end("worker", 0, 41)
    return story.finish(42, "stopped")


@cache
def without_evaluation() -> list[Event]:
    return [e for e in mnist() if not isinstance(e, ev.Evaluation)]


@cache
def running() -> list[Event]:
    return [e for e in mnist() if e.time < BEGIN + 30]


@cache
def empty() -> list[Event]:
    return []


RUNS = {
    run.__name__: run
    for run in (
        mnist,
        allreduce,
        ten_seconds,
        three_points,
        fifty_workers,
        week,
        five_hundred_workers,
        failure,
        extremes,
        not_a_number,
        without_evaluation,
        running,
        begun,
        empty,
    )
}
