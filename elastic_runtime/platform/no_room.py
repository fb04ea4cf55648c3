"""How a master learns that what it has to keep does not fit where it is kept, and never will."""

from __future__ import annotations

from elastic_runtime.errors import ElasticError


class NoRoom(ElasticError):
    """To try it again is of no use: the job cannot go on."""
