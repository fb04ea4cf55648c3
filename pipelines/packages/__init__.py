"""A pipeline compiled for an engine: the YAML that engine takes, and what of it can still be changed.

One is made of the KFP function, another of the Hera workflow of the same file. `--param` and `--set` change
what was compiled, not what was written, so that neither of the two has to know of the other, or of us.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Change:
    """What `--param NAME=TEXT`, or with a step `--set STEP.NAME=TEXT`, asks for."""

    step: str
    name: str
    text: str

    @property
    def option(self) -> str:
        """As it was typed."""
        return f"--set {self.step}.{self.name}" if self.step else f"--param {self.name}"


class Package(Protocol):
    """What the command needs of either kind."""

    kind: str
    """`kfp` or `argo`."""
    engine: str
    """For whom it is, as people call it."""
    form: str
    """What of the pipeline's file it is made of."""
    name: str
    """The pipeline's."""

    def steps(self) -> Collection[str]:
        """The names of all steps, in the order they are written."""
        ...

    def names(self, step: str = "") -> Collection[str]:
        """What can be changed: inputs of a step, empty if there is no such step; or the parameters."""
        ...

    def missing(self) -> Mapping[str, str]:
        """The parameters that have no value yet, and what they are."""
        ...

    def change(self, change: Change) -> None:
        """Do it; a value that cannot be is an `InputError`."""
        ...

    def run_in(self, image: str) -> bool:
        """Have this image in place of the components' own, where that is not by choice; whether it is."""
        ...

    def check(self) -> None:
        """Raise an `InputError` if a step would refuse what it is given, as far as that is known."""
        ...

    def text(self) -> str:
        """The YAML."""
        ...
