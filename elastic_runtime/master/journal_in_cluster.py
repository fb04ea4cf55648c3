"""The store of a journal in a cluster: in the job's anchor, or in the run folder if that is on a volume.

A journal that is in the anchor goes with the job to a volume, which is where one belongs that has grown too
large. The way back, or to another volume, is refused: nobody mounts the one that it is on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elastic_runtime.errors import InputError
from elastic_runtime.master import prepare
from elastic_runtime.master.journal import FileStore, Store
from elastic_runtime.platform.kubernetes import journal_place
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.config_map import ConfigMapStore
from elastic_runtime.spec.job import JobSpec


def store_for(spec: JobSpec, api: Api, anchor: Any) -> Store:
    """Where this job's journal is kept from now on, with all that there is of it."""
    place, in_anchor = journal_place.place_of(spec), ConfigMapStore(api, anchor.metadata.name)
    if not place:
        return in_anchor
    store = FileStore(Path(spec.run_dir) / prepare.JOURNAL_FILE)
    if journal_place.noted_place(anchor) != place:
        try:
            _move(in_anchor, store)
        except BaseException:
            store.close()
            raise
        in_anchor.hand_over({journal_place.KEY: place})
    return store


def _move(before: ConfigMapStore, store: FileStore) -> None:
    """Rows that are there already are those of a master that was lost before it could say that they are."""
    rows, there = before.load(), store.load()
    if rows and not there:
        store.append(rows)
    elif rows and rows != there:
        raise InputError(
            "there is another journal than the one that the job has in its ConfigMap",
            where=store.where,
            remedy="give another --run_dir, or --restart to begin anew",
        )
