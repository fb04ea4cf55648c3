"""Pods as processes of this machine: started once, adopted by the next master, gone when they should be."""

from elastic_runtime.platform.process.claim import Claim, claim
from elastic_runtime.platform.process.folder import RunFolder
from elastic_runtime.platform.process.platform import ProcessPlatform

__all__ = ["Claim", "ProcessPlatform", "RunFolder", "claim"]
