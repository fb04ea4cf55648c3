"""What differs for a master between a laptop and a cluster: who runs its pods, where its journal is, how it
is found.

Everything else in the master is the same program.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.master import prepare
from elastic_runtime.master.commands import Place
from elastic_runtime.master.journal import FileStore, Store
from elastic_runtime.platform.pods import Platform
from elastic_runtime.platform.process.platform import ProcessPlatform
from elastic_runtime.spec.job import JobSpec

LOOPBACK = "127.0.0.1"


async def _nothing_to_forget(succeeded: bool) -> None:
    """A run folder stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Made for one job, before its master."""

    platform: Platform
    store: Store
    """Where the journal is kept."""
    token: str
    listen: str
    """Where the master listens."""
    host: str
    """Where others reach what it serves."""
    place: Place
    """Of the pods."""
    successor_on_signal: bool = False
    """A signal to end is not the user's wish to end the job: another master will go on with it."""
    again_after_sigterm: bool = False
    """Pods end together with this process, and what ended it with SIGTERM will run it again."""
    forget: Callable[[bool], Awaitable[None]] = _nothing_to_forget
    """Called last of all, with whether the job succeeded: removes what the job had there."""


def on_this_machine(spec: JobSpec, *, in_step: bool = False) -> Surroundings:
    """Pods are processes, the journal is a file in the run folder."""
    folder = Path(spec.run_dir)
    return Surroundings(
        platform=ProcessPlatform(folder, spec.job_name),
        store=FileStore(folder / prepare.JOURNAL_FILE),
        token=prepare.token(folder, by_hand=spec.num_workers == 0),
        listen=LOOPBACK,
        host=LOOPBACK,
        place=Place(address=f"@{(folder / prepare.ADDRESS_FILE).absolute()}", python=sys.executable),
        again_after_sigterm=in_step,
    )
