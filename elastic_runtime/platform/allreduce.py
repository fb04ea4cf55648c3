"""Whether workers on this machine can train with AllreduceStrategy, asked before any of them is started.

They need Horovod as this project builds it (docs/horovod.md), for the TensorFlow that is here. Its version
tells both: `0.28.1+elasticdl.tf2.21.0.p1a2b3c4d`. Nothing heavy is imported to find out.
"""

from __future__ import annotations

import re
from importlib import metadata

REMEDY = "python -m elastic_runtime.worker.allreduce.horovod.build --install"


def why_no_allreduce() -> str | None:
    """What keeps AllReduce workers from running here, or None if nothing does; `REMEDY` cures it."""
    horovod = _installed("horovod")
    if horovod is None:
        return "Horovod, which AllReduce jobs need, is not installed"
    ours = re.search(r"\+elasticdl\.tf(.+)\.p[0-9a-f]+$", horovod)
    if ours is None:
        return f"the Horovod installed here ({horovod}) lacks the mending that elastic jobs need"
    tensorflow = tensorflow_version()
    if ours[1] != tensorflow:
        return f"the Horovod installed here is for TensorFlow {ours[1]}, not {tensorflow or 'none at all'}"
    return None


def tensorflow_version() -> str | None:
    """The version of the TensorFlow installed here, whichever package it came with."""
    return _installed("tensorflow") or _installed("tensorflow-cpu")


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
