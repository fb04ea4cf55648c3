"""What the master asks of the model that a worker holds, or has a copy of: snapshots, checkpoints, the copy.

Belongs to the main thread, between minibatches.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps.client import PSUnavailable
from elastic_runtime.rpc import master_pb2
from elastic_runtime.worker.link import MasterLink

if TYPE_CHECKING:
    from elastic_runtime.worker.compute import Compute

log = logging.getLogger(__name__)


class Keeper:
    """Keeps, writes and hands over the model as ordered."""

    def __init__(self, compute: Compute, link: MasterLink) -> None:
        self._computing, self._link = compute, link

    def snapshot(self, era: int) -> None:
        """Keep a copy of the model as it is now."""
        self._computing.show_present()
        self._link.reached(era=era, version=self._computing.holder.snapshot())

    def drop_snapshot(self, order: master_pb2.DropSnapshotOrder) -> None:
        """The copy of that version is needed no more."""
        self._computing.holder.drop_snapshot(order.version)

    def save(self, order: master_pb2.SaveOrder, era: int) -> None:
        """Write a checkpoint's part, and tell what came of it."""
        error, version = "", order.version
        self._computing.show_present()
        try:
            version = self._computing.holder.save(Path(order.directory), order.version)
        except (ElasticError, OSError) as problem:
            error = str(problem)
            log.warning("the checkpoint of version %d could not be written: %s", order.version, error)
        self._link.saved(era=era, version=version, directory=order.directory, error=error)

    def offer_copy(self, order: master_pb2.OfferCopyOrder) -> None:
        """The parameter servers have no model, or not all of it: this worker's may be the best there is."""
        copier = self._computing.copier
        version = copier.copy_version if copier else -1
        if copier is None or not self._link.offer_copy(era=order.era, version=version):
            return
        try:
            copier.upload(order.ps_addresses, order.era)
        except ElasticError as problem:
            log.warning("the model could not be given to the parameter servers: %s", problem)
            self._link.uploaded(era=order.era, version=version, error=str(problem))
            if version < 0 and not isinstance(problem, PSUnavailable):
                raise  # nothing is in hand, and no time will cure it
        else:
            self._link.uploaded(era=order.era, version=version)
