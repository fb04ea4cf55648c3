"""Trainings side by side in a workflow that give their jobs one name are refused when it is compiled.

The default is the workflow's name, which is enough for one. Where `when` decides whether a training runs, and
between templates, there may be several of a name of which one is run.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from hera.shared import register_pre_build_hook
from hera.workflows import DAG, Parallel, Steps

from .template import StepTemplate

_LOOPS = ("with_items", "with_param", "with_sequence")


@register_pre_build_hook
def refuse_in_a_dag(dag: DAG) -> DAG:
    """Look at its tasks; Hera goes by the annotation of what is returned."""
    _refuse(dag.tasks)
    return dag


@register_pre_build_hook
def refuse_in_steps(steps: Steps) -> Steps:
    """Look at its steps."""
    _refuse(in_order(steps))
    return steps


def in_order(steps: Steps) -> Iterator[Any]:
    """Each of them, also of those that run side by side."""
    groups = [each.sub_steps if isinstance(each, Parallel) else each for each in steps.sub_steps]
    yield from (step for group in groups for step in (group if isinstance(group, list) else [group]))


def _refuse(nodes: Iterable[Any]) -> None:
    taken: dict[str, str] = {}
    for node in nodes:
        job = _job(node)
        if job and any(getattr(node, loop) for loop in _LOOPS) and "{{item" not in job:
            remedy = "make {{item}} part of its job_name"
            raise ValueError(f"{node.name}: the job of each item is {job!r} ({remedy})")
        if job and job in taken:
            remedy = "give each training a job_name of its own, and clean up each"
            raise ValueError(f"{node.name}: {taken[job]} has the job {job!r}, too ({remedy})")
        taken[job] = node.name


def _job(node: Any) -> str:
    """The name of the job of a training that runs whatever is the case."""
    template = getattr(node, "template", None)
    if not isinstance(template, StepTemplate) or template.args[0] != "train" or node.when:
        return ""
    given = [each for each in node.arguments or () if isinstance(each, dict) and "job_name" in each]
    default = next(port.default for port in template.inputs if port.name == "job_name")
    return str(given[-1]["job_name"] if given else default)
