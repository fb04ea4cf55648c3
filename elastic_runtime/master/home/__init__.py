"""Where the model lives, and how it comes back to one consistent state after a part of it was lost.

Each beginning of a consistent state is an *era*: leases and gradients of older eras are void. A home learns
of its holders as they join; when they are not those of the present era it finds the best state that is left
(the newest checkpoint, else the freshest copy a worker has, else a new start), has every holder take it,
and begins the next era.
"""

from elastic_runtime.master.home.base import BeginEra, FindCheckpoint, Home, Origin
from elastic_runtime.master.home.held import HeldHome
from elastic_runtime.master.home.replicated import ReplicatedHome, WorldTerms
from elastic_runtime.master.home.served import ServedHome
from elastic_runtime.master.home.static import StaticHome

__all__ = [
    "BeginEra",
    "FindCheckpoint",
    "HeldHome",
    "Home",
    "Origin",
    "ReplicatedHome",
    "ServedHome",
    "StaticHome",
    "WorldTerms",
]
