"""The ledger: which records of which epoch are done, and who trains what now.

A plain state machine. Tell it an event, journal the event if `changes(effects)`, then act on the effects:

    effects = ledger.handle(Ask(worker, now))
    if changes(effects):
        journal.append(encode(event)); await journal.commit()
    ...answer

Deadlines: wait until `next_deadline()`, then handle an `Expire` for each worker in `overdue(now)`. After a
restart: `Ledger.restore(snapshot, ...)`, `handle(decode(row))` for each row of the journal, then
`handle(Resumed(now))`. A checkpoint of version N carries `state_at(N)`; once it is safe, `forget_before(N)`
keeps the history short.
"""

from elastic_runtime.master.ledger.events import (
    Accepted,
    AllFinished,
    Ask,
    AtWork,
    Effect,
    EpochFinished,
    Event,
    Expire,
    Failed,
    Finished,
    GivenBack,
    Granted,
    JobFailed,
    Lease,
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
from elastic_runtime.master.ledger.ledger import Ledger

__all__ = [
    "Accepted",
    "AllFinished",
    "Ask",
    "AtWork",
    "Effect",
    "EpochFinished",
    "Event",
    "Expire",
    "Failed",
    "Finished",
    "GivenBack",
    "Granted",
    "JobFailed",
    "Lease",
    "Ledger",
    "Left",
    "NoWorkEver",
    "NoWorkNow",
    "Progress",
    "Refused",
    "Renewed",
    "Reopened",
    "Requeued",
    "Resumed",
    "RollBack",
    "RolledBack",
    "Shard",
    "Source",
    "StopHandingOut",
    "Stopping",
    "UndoAfter",
    "WorkerLost",
    "changes",
    "decode",
    "encode",
]
