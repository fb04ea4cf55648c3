"""Where the journal of a job in a cluster is: in its anchor, or on a volume, which the anchor then names.

A master notes the volume before it begins a journal there. So whoever goes on with the job and looks for the
journal elsewhere is told, and does not begin anew without a word.
"""

from __future__ import annotations

from typing import Any

from elastic_runtime.errors import InputError
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.volumes import place_on_volume

KEY = "journal.volume"


def place_of(spec: JobSpec) -> str:
    """Where a master of this specification keeps the journal on a volume; empty if it is in the anchor."""
    return place_on_volume(spec.run_dir, spec.volumes)


def noted_place(anchor: Any) -> str:
    """Where on a volume an earlier master has begun the journal; empty if none has."""
    return str((anchor.data or {}).get(KEY, ""))


def refuse_another(spec: JobSpec, anchor: Any) -> None:
    """Refuse a specification whose master would not find the journal that is there."""
    noted, place = noted_place(anchor), place_of(spec)
    if noted not in ("", place):
        raise InputError(
            f"the journal of job {spec.job_name!r} is on a volume, {noted}, and would not be found "
            f"{f'at {place}' if place else 'in its ConfigMap'}",
            where="--run_dir",
            remedy="give --run_dir and --volume as before, or begin anew: by --restart, in a pipeline by the "
            "step clean_up before it",
        )
