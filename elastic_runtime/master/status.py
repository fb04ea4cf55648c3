"""A job's state as the message that `elasticdl job status|pods|ledger` shows.

It is made each second, so its size must not grow with the epochs: of those that are complete it holds the
newest, and the others are like it. The command line puts them in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from elastic_runtime.master.job import Job
from elastic_runtime.master.ledger import Ledger
from elastic_runtime.observe.history import History, PodLife
from elastic_runtime.rpc import master_pb2


def describe(
    job: Job, history: History, *, pids: Mapping[str, int], status: str, pace: float, loss: float | None
) -> master_pb2.StatusReply:
    """All of it, in one message."""
    main = job.main
    reply = master_pb2.StatusReply(
        job=job.spec.job_name,
        status=status,
        version=job.version,
        epochs=max(0, job.spec.num_epochs),
        records_per_second=pace,
        loss=math.nan if loss is None else loss,
        message=history.error,
        pods=[_pod(life, pids) for life in history.current_pods],
        evaluations=[
            master_pb2.EvaluationResult(version=e.version, metrics=dict(e.metrics))
            for e in history.evaluations
        ],
    )
    if main is not None:
        reply.epoch, reply.records_done = main.begun, main.records_done
        reply.records_total, reply.records_retrained = main.records_total or 0, main.records_retrained
        reply.ledger.extend(_epochs(main))
    return reply


def _pod(life: PodLife, pids: Mapping[str, int]) -> master_pb2.PodStatus:
    return master_pb2.PodStatus(
        name=life.name,
        role=life.role,
        index=life.index,
        state=life.state,
        pid=pids.get(life.name, 0),
        started=life.started,
        relaunched_because=life.because,
        waits_for=life.detail if life.state == "pending" else "",
    )


def _epochs(ledger: Ledger) -> Iterator[master_pb2.EpochLedger]:
    """Those that are open, and the newest that is complete."""
    open_epochs = ledger.open_epochs
    complete = next((e for e in reversed(range(ledger.begun)) if e not in open_epochs), None)
    sizes: Counter[str] = Counter()
    for source in ledger.shards.sources:
        sizes[source.name] += source.records
    for epoch in sorted([*open_epochs, *([] if complete is None else [complete])]):
        sources = [
            master_pb2.SourceLedger(
                source=name,
                records=sizes[name],
                done=[master_pb2.Interval(start=start, end=end) for start, end in intervals],
            )
            for name, intervals in ledger.done_intervals(epoch).items()
        ]
        count = sum(i.end - i.start for source in sources for i in source.done)
        yield master_pb2.EpochLedger(
            epoch=epoch + 1, records=ledger.shards.records, records_done=count, sources=sources
        )
