"""The work that a worker has taken and not yet reported: in hand, or finished but not settled.

Leases go back from here, each with what is known of its records: none if it was not begun, all of them if it
was, or if it may not be in every member's model. For each that leaves the hand, the supply makes room for
another.
"""

from __future__ import annotations

from elastic_runtime.rpc import master_pb2
from elastic_runtime.worker.orders import Inbox
from elastic_runtime.worker.reports import Reports
from elastic_runtime.worker.supply import ShardSupply
from elastic_runtime.worker.work import Broken, NoMoreWork, Work


class Hand:
    """Belongs to the main thread."""

    def __init__(self, inbox: Inbox, reports: Reports, supply: ShardSupply) -> None:
        self._inbox, self._reports, self._supply = inbox, reports, supply
        self._held: Work | None = None
        self._begun = False
        self._unsettled: list[Work] = []  # finished, but not yet sure to be in every member's model
        self._void_upto = 0  # works up to this number were let go before they arrived

    def take(self, work: Work, era: int) -> bool:
        """Have it in hand; false if its records were let go meanwhile, and it went back."""
        self._held, self._begun = work, False
        if work.key.era == era and work.number > self._void_upto:
            return True
        self._hand_back([work], "its records were let go")
        return False

    def begin(self) -> None:
        """What is in hand has seen a minibatch."""
        self._begun = True

    @property
    def is_at_work(self) -> bool:
        """Whether something is in hand that has been begun."""
        return self._held is not None and self._begun

    def put_down(self) -> None:
        """What was in hand is finished, or has failed."""
        self._held = None
        self._supply.finished_one()

    def wait_to_settle(self, work: Work) -> None:
        """It is finished, and a loss could still undo it."""
        self._unsettled.append(work)

    def settled(self, work: Work, finished: master_pb2.Finished) -> None:
        """It is in every member's model to stay, unless it went back before."""
        if work in self._unsettled:
            self._unsettled.remove(work)
            self._reports.finished(work.key, finished)

    def hand_back(self, reason: str) -> None:
        """Give back what was begun."""
        self._hand_back(self._taken(), reason)

    def hand_back_all(self, reason: str) -> None:
        """Give back what waits in the inbox, too; what is on its way there will not be begun."""
        self._void_upto = self._supply.number  # before room is made for more
        self._hand_back(self._taken() + self._unbegun(), reason)

    def hand_back_unbegun(self, reason: str) -> None:
        """Give back what waits in the inbox."""
        for work in self._unbegun():
            self._reports.given_back(work.key, reason=reason, records=0)
            self._supply.finished_one()

    def leave(self, reason: str, *, version: int, asked: bool) -> None:
        """The training is over: what is not finished goes back; what is may still settle."""
        self._void_upto = self._supply.number  # before room is made for more
        held = [self._held] if self._held else []
        for work in held + self._unbegun():
            records = work.records if work is self._held and self._begun else 0
            self._reports.left(work.key, reason=reason, records=records, version=version, asked=asked)
            self._supply.finished_one()
        self._held = None

    def _taken(self) -> list[Work]:
        return [*self._unsettled, *([self._held] if self._held else [])]

    def _hand_back(self, works: list[Work], reason: str) -> None:
        for work in works:
            unsettled = work in self._unsettled
            begun = unsettled or (work is self._held and self._begun)
            self._reports.given_back(work.key, reason=reason, records=work.records if begun else 0)
            if unsettled:
                self._unsettled.remove(work)
            else:
                self._supply.finished_one()
        self._held = None

    def _unbegun(self) -> list[Work]:
        """The work that waits in the inbox; the word that no more will come stays there."""
        works, last = [], []
        while not self._inbox.empty():
            match self._inbox.get():
                case Work() as work:
                    works.append(work)
                case NoMoreWork() | Broken() as word:
                    last.append(word)
        for word in last:
            self._inbox.put(word)
        return works
