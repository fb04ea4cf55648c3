"""A worker among others that hold the same model: its way from one world to the next.

Between two minibatches the worker may leave its world, when all have agreed to after the same step, or
because a member was lost; then it asks the master for its place in the next one, and goes on where it was.
What it has to report waits until every member has it in the model: a record is not called done that a loss
could still take away.

All on the main thread, but for `hear`, which may end what the main thread waits for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from elastic_runtime.rpc import master_pb2
from elastic_runtime.worker.allreduce.collective import PeerLost, Place
from elastic_runtime.worker.allreduce.trainer import AllreduceTrainer
from elastic_runtime.worker.interrupts import EraEnded, Released, WorkOver
from elastic_runtime.worker.link import MasterLink

log = logging.getLogger(__name__)

ATTEND_SECONDS = 0.5
"""Others wait at most so long, and for one minibatch more, for a worker that does other work."""
ASK_SECONDS = 1.0
"""How long one question for a place waits: between two of them orders are obeyed."""


class Company:
    """This worker and the other members of its world."""

    def __init__(
        self,
        trainer: AllreduceTrainer,
        link: MasterLink,
        *,
        obey: Callable[[], None],
        show_present: Callable[[], None],
    ) -> None:
        self._trainer, self._link, self._obey = trainer, link, obey
        self._show_present = show_present  # no snapshot is shown where the model is changed or told of
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._tried = 0  # the newest world this worker was to be in
        self._lock = threading.Lock()  # guards the next one
        self._together = 0  # the world that operations of the main thread belong to
        self._called = 0  # the newest world that this worker was told to leave
        self._last_turn = 0.0
        self._void = False  # a member is lost, and this one has not noticed yet
        self.era = self.world = self.rank = 0

    def enter(self) -> None:
        """Be in a world; at once if in one already."""
        began = time.monotonic()
        asked = False
        while not self.world:
            self._obey()
            place = self._link.world(
                left=self._tried,
                era=self.era,
                version=self._trainer.version,
                checksum=self._trainer.checksum() if self.era else 0,
                wait_seconds=ASK_SECONDS,
            )
            if place.end:
                raise WorkOver
            if place.world:
                self._try(place, began)
            elif not asked:
                asked = True
                log.info("waiting for the others")

    def run(self, step: Callable[[], None]) -> None:
        """Run a minibatch through losses and changes; what else may come of these, see `_change`."""
        while True:
            self._obey()
            try:
                step()
                break
            except PeerLost as problem:
                self._change(problem)
        self._after_turn()

    def idle(self, turn: Callable[[], bool]) -> bool:
        """Take part without records of one's own; whether anybody had some."""
        try:
            moved = turn()
        except PeerLost as problem:
            self._change(problem)
            return True
        self._after_turn()
        return moved

    def attend(self, turn: Callable[[], bool]) -> None:
        """Between minibatches of other work: let the others not wait for the end of it."""
        if self._void:
            self._change(PeerLost("a member is lost"))
        elif self._trainer.wants_change or time.monotonic() > self._last_turn + ATTEND_SECONDS:
            self.idle(turn)

    def when_settled(self, report: Callable[[], None]) -> None:
        """Report once what was trained so far is in every member's model."""
        self._later.append((self._trainer.version, report))
        self._tell_settled()

    def stumble(self) -> None:
        """A minibatch failed by itself, maybe in the midst of its sums: go on in another world."""
        if self.world:
            self._change()

    def part(self) -> None:
        """Leave after a turn in which all learn of it; what is not settled then is not reported."""
        self._show_present()
        if self.world:
            self._trainer.wants_change = True
            try:
                self._trainer.idle()
            except PeerLost as problem:
                log.info("a member left before this one: %s", problem)
            self._tell_settled()
            self._leave()
        self._later.clear()

    def call_in(self, order: master_pb2.CallInOrder) -> None:
        """Others wait to join, or the world is no more."""
        self._called = max(self._called, order.world)
        if order.world == self.world:
            self._void = order.void
            self._trainer.wants_change = True

    def want_snapshot(self) -> None:
        """The master wants one: all take it after the next turn."""
        self._trainer.wants_snapshot = True

    def hear(self, order: master_pb2.CallInOrder) -> None:
        """From the membership's thread: a lost member ends what the main thread waits for in that world."""
        with self._lock:
            if order.void and order.world == self._together:
                self._trainer.abort()

    def close(self) -> None:
        """Leave whatever world this is."""
        self._leave()

    def _try(self, reply: master_pb2.WorldReply, began: float) -> None:
        self._tried = reply.world
        place = Place(reply.world, reply.rank, reply.size, reply.store, self._link.worker)
        with self._lock:
            self._together = reply.world
        try:
            if reply.era != self.era:
                checkpoint = Path(reply.restore_from) if reply.restore_from else None
                self._trainer.go_back(checkpoint, keep=reply.keep)
            self._trainer.enter(place)
        except PeerLost as problem:
            log.info("world %d did not come together: %s", reply.world, problem)
            self._leave()
            return
        if reply.era != self.era or self._trainer.left_out:
            self._later.clear()  # nobody knows whether it is in this model
        self.world, self.rank, self.era = reply.world, reply.rank, reply.era
        self._trainer.wants_change = self._called >= self.world
        log.info(
            "world %d: rank %d of %d, version %d, after %.2f s",
            reply.world,
            reply.rank,
            reply.size,
            self._trainer.version,
            time.monotonic() - began,
        )
        self._tell_settled()

    def _after_turn(self) -> None:
        self._last_turn = time.monotonic()
        self._tell_settled()
        if self._trainer.snapshot_taken is not None:
            version, self._trainer.snapshot_taken = self._trainer.snapshot_taken, None
            if self.rank == 0:
                self._link.reached(era=self.era, version=version)
        if self._trainer.change_agreed:
            self._change()

    def _change(self, lost: PeerLost | None = None) -> None:
        """Go on in the next world; `EraEnded` if the model went back, `Released` if others went on alone."""
        if lost is not None:
            log.info("world %d is no more: %s", self.world, lost)
        era = self.era
        self._show_present()
        self._leave()
        self.enter()
        if self.era != era:
            raise EraEnded
        if self._trainer.left_out:
            raise Released("the others went on without it")

    def _leave(self) -> None:
        with self._lock:
            self._together = 0
        self._trainer.leave()
        self.world, self._void = 0, False

    def _tell_settled(self) -> None:
        while self._later and self._later[0][0] <= self._trainer.settled:
            self._later.pop(0)[1]()
