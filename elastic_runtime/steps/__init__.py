"""What a pipeline's step does when it runs: one typed function for each component.

A step takes arguments and artifacts and leaves files and metadata; it knows no pipeline engine. `carry_out`
is how an engine runs one: what a user can mend becomes the last line of the log, and the exit code tells the
rest.
"""

from elastic_runtime.steps.artifact import Artifact, Folder
from elastic_runtime.steps.carry_out import carry_out

__all__ = ["Artifact", "Folder", "carry_out"]
