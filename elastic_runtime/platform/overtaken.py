"""How a master that was cut off learns that the job has another one."""

from __future__ import annotations

from elastic_runtime.errors import ElasticError


class Overtaken(ElasticError):
    """Another master has taken over: this one must end at once, and touch nothing on its way."""
