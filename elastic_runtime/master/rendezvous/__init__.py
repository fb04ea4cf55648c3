"""Worlds of AllReduce: who trains together, in which order, and when that changes.

`rendezvous` decides, `store` is where the members of a new world find each other's addresses.
"""

from elastic_runtime.master.rendezvous.rendezvous import (
    Arrived,
    Asked,
    Away,
    CallIn,
    Diverged,
    Effect,
    Event,
    Formed,
    Gone,
    Rendezvous,
    Silent,
    Tick,
    Void,
)
from elastic_runtime.master.rendezvous.store import Store

__all__ = [
    "Arrived",
    "Asked",
    "Away",
    "CallIn",
    "Diverged",
    "Effect",
    "Event",
    "Formed",
    "Gone",
    "Rendezvous",
    "Silent",
    "Store",
    "Tick",
    "Void",
]
