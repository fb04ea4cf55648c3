"""The master's line to the parameter servers, hung up while somebody speaks."""

import asyncio
import threading

import pytest
from ps_worlds import servers

from elastic_runtime.ps.client import PSUnavailable
from elastic_runtime.ps.control import PSControl


@pytest.mark.parametrize("token", ["", "secret"])
def test_a_call_under_way_when_the_line_is_closed_has_reached_nobody(token, monkeypatch):
    """Nor does it end its caller as if that were cancelled: it may be who brings the model back."""
    asked, answer = threading.Event(), threading.Event()

    def restore(directory, era):
        asked.set()
        answer.wait(60)

    async def closed_meanwhile(address):
        control = PSControl([address], token=token)
        call = asyncio.ensure_future(control.restore("somewhere", 2))
        assert await asyncio.to_thread(asked.wait, 60)
        await control.close()
        with pytest.raises(PSUnavailable, match="the line was closed"):
            await call
        with pytest.raises(PSUnavailable, match="the line was closed"):
            await control.drop_snapshot(1)

    with servers(token=token) as ([shard], [address]):
        monkeypatch.setattr(shard, "restore", restore)
        try:
            asyncio.run(closed_meanwhile(address))
        finally:
            answer.set()


def test_a_caller_that_is_cancelled_stays_so(monkeypatch):
    asked, answer = threading.Event(), threading.Event()

    def restore(directory, era):
        asked.set()
        answer.wait(60)

    async def cancelled(address):
        control = PSControl([address], token="")
        call = asyncio.ensure_future(control.restore("somewhere", 2))
        assert await asyncio.to_thread(asked.wait, 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await control.close()

    with servers() as ([shard], [address]):
        monkeypatch.setattr(shard, "restore", restore)
        try:
            asyncio.run(cancelled(address))
        finally:
            answer.set()
