"""What a job says of itself: its master if that lives, otherwise the last it wrote down."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message

from elastic_runtime.cli.runs import Run
from elastic_runtime.errors import ElasticError
from elastic_runtime.platform.process.folder import RunFolder
from elastic_runtime.rpc import channel, master_pb2, master_pb2_grpc
from elastic_runtime.rpc.token import token_from_environment

_ANSWER_SECONDS = 5.0
_STOP_SECONDS = 60.0
"""A busy master is waited for: nobody else can end the job in order."""


@dataclass(frozen=True, slots=True)
class State:
    """A job's state, and whether its master told it just now."""

    reply: master_pb2.StatusReply
    is_live: bool
    has_figures: bool = True
    """Whether it is known how far the job is; else only what it is, and its pods."""
    namespace: str = ""
    """Where it is in a cluster."""

    @property
    def is_orphaned(self) -> bool:
        """Whether the job was last heard of running, and has no master."""
        return not self.is_live and self.reply.status == "running"

    @property
    def status(self) -> str:
        """The status in a word or two."""
        return "without master" if self.is_orphaned else self.reply.status or "unknown"


def state(run: Run) -> State:
    """The job's state, from its master or from its files."""
    try:
        return State(_ask(run, "Status", master_pb2.StatusRequest()), is_live=True)
    except ElasticError:
        return State(_written(run), is_live=False)


def whole_ledger(reply: master_pb2.StatusReply) -> list[master_pb2.EpochLedger]:
    """Every epoch. Of those that are complete only the newest is told of, and the others are like it."""
    told = {epoch.epoch: epoch for epoch in reply.ledger}
    complete = [epoch for epoch in reply.ledger if epoch.records_done == epoch.records]
    for number in range(1, reply.epoch + 1):
        if number not in told and complete:
            told[number] = copy.deepcopy(complete[-1])
            told[number].epoch = number
    return [told[number] for number in sorted(told)]


def ask_to_stop(run: Run, reason: str) -> None:
    """Ask the master to drain the job, save and end."""
    _ask(run, "Stop", master_pb2.StopRequest(reason=reason), seconds=_STOP_SECONDS)


def plain(message: Message) -> dict[str, Any]:
    """A message as JSON values, every field there, numbers as numbers."""
    fields = message.DESCRIPTOR.fields
    return {field.name: _value(field, getattr(message, field.name)) for field in fields}


def _ask(run: Run, method: str, request: Message, *, seconds: float | None = None) -> Any:
    address = run.read("master.addr")
    if ":" not in address:
        raise ElasticError("the job has no master", where=run.job)
    stub: Any = master_pb2_grpc.MasterStub
    with channel.connect(address, token=run.read("token") or token_from_environment()) as connection:
        try:
            return getattr(stub(connection), method)(request, timeout=seconds or _ANSWER_SECONDS)
        except grpc.RpcError as error:
            reason = error.details() if isinstance(error, grpc.Call) else error
            raise ElasticError(f"the master does not answer: {reason}", where=run.job) from None


def _written(run: Run) -> master_pb2.StatusReply:
    reply = master_pb2.StatusReply(job=run.job)
    name = next((name for name in ("status.json", "summary.json") if run.read(name)), "")
    try:
        json_format.Parse(run.read(name) if name else "{}", reply, ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise ElasticError(f"not the state of a job: {error}", where=str(run.folder / name)) from None
    for pod in reply.pods:
        if pod.state == "running" and not RunFolder(run.folder).running(pod.name):
            pod.state = "lost"
    return reply


def _value(field: Any, value: Any) -> Any:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return {key: item if math.isfinite(item) else None for key, item in value.items()}
    if field.is_repeated:
        return [plain(item) if field.message_type else item for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such number
    return plain(value) if field.message_type else value
