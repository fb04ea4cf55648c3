"""Who is connected: members that hold a `Join` call open, and the orders on their way to them.

A connection is a hint, not a verdict: a broken one may come back, so nobody is declared lost for it here. A
process is over when its pod is said to have ended, or another has joined in its name. It may run still, on
a node that nobody hears of: then it is told to end. An order to a member that is away is dropped; the state
it spoke of is told anew at each joining.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from elastic_runtime.rpc import master_pb2


@dataclass(eq=False)
class Connection:
    """One open `Join` call."""

    member: master_pb2.Member
    orders: asyncio.Queue[master_pb2.Order | None] = field(default_factory=asyncio.Queue)

    def send(self, order: master_pb2.Order) -> None:
        """Queue an order."""
        self.orders.put_nowait(order)

    def end(self) -> None:
        """End the call after what is queued."""
        self.orders.put_nowait(None)

    def turn_away(self, reason: str) -> None:
        """There is no place for this process: it is to end."""
        self.send(master_pb2.Order(drain=master_pb2.DrainOrder(reason=reason)))
        self.end()


class Members:
    """The open connections by member name; a newer one of the same name replaces the older."""

    def __init__(self) -> None:
        self._by_name: dict[str, Connection] = {}
        self._living: dict[str, str] = {}
        self._over: set[str] = set()  # incarnations
        self._parted = asyncio.Event()

    def join(self, member: master_pb2.Member) -> Connection:
        """Register a new connection."""
        older = self._by_name.get(member.name)
        if older is not None:
            older.end()
        connection = Connection(member)
        self._living[member.name] = member.incarnation
        self._by_name[member.name] = connection
        return connection

    def lives(self, name: str, incarnation: str) -> bool:
        """Whether this is the living process of that name: it joined, and was not declared gone since."""
        return self._living.get(name) == incarnation

    def incarnation(self, name: str) -> str | None:
        """The living process of a name."""
        return self._living.get(name)

    def forget(self, name: str) -> None:
        """Its process is gone, or taken for gone: it is heard again only after it has joined anew."""
        self._living.pop(name, None)

    def bury(self, name: str, reason: str, *earlier: str) -> None:
        """The process of this name is never heard again; if it still runs, it is to end.

        Nor are `earlier` ones heard, which had its place when another master was there.
        """
        self._over.update(earlier)
        incarnation = self._living.pop(name, None)
        if incarnation is None:
            return
        self._over.add(incarnation)
        connection = self._by_name.get(name)
        if connection is not None and connection.member.incarnation == incarnation:
            connection.turn_away(reason)

    def is_over(self, incarnation: str) -> bool:
        """Whether another has the place of this process."""
        return incarnation in self._over

    def part(self, connection: Connection) -> bool:
        """Forget a connection that ended; true if it was the member's newest."""
        if self._by_name.get(connection.member.name) is connection:
            del self._by_name[connection.member.name]
            self._parted.set()
            return True
        return False

    async def parted(self) -> None:
        """Wait until the next connection ends."""
        self._parted.clear()
        await self._parted.wait()

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Connection:
        return self._by_name[name]

    def of(self, role: int) -> Iterator[Connection]:
        """Connected members of a role, oldest first."""
        return (c for c in list(self._by_name.values()) if c.member.role == role)

    def entered(self, name: str, era: int) -> None:
        """A worker has entered this era: it holds a copy of the model."""
        if name in self._by_name:
            self._by_name[name].member.era = era

    def send(self, name: str, order: master_pb2.Order) -> bool:
        """Order one member; false if it is not connected."""
        connection = self._by_name.get(name)
        if connection is not None:
            connection.send(order)
        return connection is not None

    def tell_workers(self, order: master_pb2.Order) -> None:
        """Order every connected worker."""
        for connection in self.of(master_pb2.ROLE_WORKER):
            connection.send(order)

    def end_all(self) -> None:
        """End every connection."""
        for connection in list(self._by_name.values()):
            connection.end()
