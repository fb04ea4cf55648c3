"""Why a worker's main thread stops what it is doing: raised between minibatches, where orders are obeyed."""

from __future__ import annotations


class EraEnded(Exception):
    """The model went back to an earlier state: the work in hand is void."""


class Released(Exception):
    """The leases in hand are void: others have them."""


class Enough(Exception):
    """The training is over: what is in hand of it is not finished any more."""


class Draining(BaseException):
    """This worker shall leave now, between two minibatches, or wherever it is if there is no model yet.

    In the midst of imports and of the user's code nobody may take it for an error of theirs.
    """


class WorkOver(Exception):
    """Nothing is left to do, said by the master before this worker took part."""
