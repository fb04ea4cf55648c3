"""What may be said to the steps that use a finished model, judged without the model and without TensorFlow.

So a pipeline that says something wrong is refused where it is compiled, and a step that is told so at its
beginning.
"""

from __future__ import annotations

from collections.abc import Mapping

from elastic_runtime.data.convert import ConvertRequest
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.steps.options import known, text


def check(given: Mapping[str, object]) -> None:
    """Refuse what is wrong whatever the model and the data are; what is empty is as it was trained."""
    plain = known(given)
    JobSpec.check_each({name: text(value) for name, value in plain.items() if value})
    records = plain.get("records_per_file")
    if isinstance(records, int | float):
        ConvertRequest(source="", output="", records_per_file=int(records))  # they are written as there
