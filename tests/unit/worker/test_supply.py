"""Records that cannot be read fail their shard at once only if no other attempt may read them."""

from __future__ import annotations

import queue
from unittest.mock import Mock

import pytest

from elastic_runtime.errors import ElasticError, Unavailable
from elastic_runtime.rpc import master_pb2
from elastic_runtime.worker.supply import ShardSupply


@pytest.mark.parametrize(
    ("problem", "final"), [(ElasticError("damaged"), True), (Unavailable("the store is away"), False)]
)
def test_a_store_that_is_away_costs_an_attempt_and_damage_the_job(problem: ElasticError, final: bool) -> None:
    granted, end = (
        master_pb2.LeaseReply(answer=answer)
        for answer in (master_pb2.LeaseReply.GRANTED, master_pb2.LeaseReply.END)
    )
    link, reports, inbox = Mock(), Mock(), queue.SimpleQueue()
    link.lease.side_effect = [granted, end]
    supply = ShardSupply(link, inbox, reports, Mock(side_effect=problem))
    supply.start(0)
    inbox.get(timeout=60)
    supply.join(60)
    reports.failed.assert_called_once_with(granted.key, error=str(problem), trace="", fatal=final)
