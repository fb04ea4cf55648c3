"""How a master that was cut off learns that the job has another one."""

from __future__ import annotations

from elastic_runtime.errors import ElasticError
from elastic_runtime.platform.pods import EXIT_DRAINED


class Overtaken(ElasticError):
    """Another master has taken over: this one must end at once, and touch nothing on its way."""

    exit_code = EXIT_DRAINED  # it says nothing of how the job went
