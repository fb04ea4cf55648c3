"""What a step of a workflow is handed by another: an artifact of which kind, a dataset with which parts.

Argo takes any artifact for any other, and hears of parts when the step reads them. But the reference,
`{{tasks.data.outputs.artifacts.dataset}}`, says who makes it, and so does that step's component what it is.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hera.shared import register_pre_build_hook
from hera.workflows import DAG, Artifact, Steps

from elastic_runtime.errors import nearest

from ..parts import Made, parts_made
from .one_job_each import in_order
from .template import StepTemplate

_REFERENCE = re.compile(r"\{\{ *(?:tasks|steps)\.([^. ]+)\.outputs\.artifacts\.([^. }]+) *\}\}")
_ANY = "Artifact"


@dataclass(frozen=True, slots=True)
class Call:
    """A step of ours, and what it is given; of artifacts where they are from."""

    template: StepTemplate
    given: Mapping[str, Any]


def refuse(calls: Mapping[str, Call]) -> None:
    """Raise if one of the steps of a DAG, by their names, would refuse what it is given."""
    for name, call in calls.items():
        called = f"step {name}"
        made = {port: _made(port, value, call, calls, called) for port, value in call.given.items()}
        call.template.refuse({**call.given, **made}, called)


def _made(port: str, value: Any, call: Call, calls: Mapping[str, Call], called: str) -> Any:
    """What is known of an input that another step makes; raises if it is of a kind that is not taken here."""
    reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if reference is None or reference[1] not in calls:
        return value
    name, output = reference.groups()
    maker, wanted = calls[name], _kind((call.template.component.component_spec.inputs or {}).get(port))
    kinds = _kinds(maker)
    if output not in kinds:
        raise ValueError(f"{called}: {port}: {name} makes no artifact {output!r}, {nearest(output, kinds)}")
    if wanted != kinds[output] and _ANY not in {wanted, kinds[output]}:
        fitting = [
            f"{each}.{made}" for each in calls for made, kind in _kinds(calls[each]).items() if kind == wanted
        ]
        hint = f" ({nearest(f'{name}.{port}', fitting)})" if fitting else ""
        raise ValueError(f"{called}: {port} is a {wanted}, and {name}.{output} is a {kinds[output]}{hint}")
    is_converted = maker.template.component.python_func.__name__ == "convert" and output == "dataset"
    return Made(parts_made(maker.given)) if is_converted else value


def _kinds(call: Call) -> dict[str, str]:
    """The artifacts that it makes, and what they are."""
    outputs = call.template.component.component_spec.outputs or {}
    return {name: _kind(port) for name, port in outputs.items() if str(port.type).startswith("system.")}


def _kind(port: Any) -> str:
    return str(port.type).removeprefix("system.").partition("@")[0] if port is not None else _ANY


@register_pre_build_hook
def look_at_a_dag(dag: DAG) -> DAG:
    """Hera goes by the annotation of what is returned."""
    refuse(_calls(dag.tasks))
    return dag


@register_pre_build_hook
def look_at_steps(steps: Steps) -> Steps:
    """The same."""
    refuse(_calls(in_order(steps)))
    return steps


def _calls(nodes: Iterable[Any]) -> dict[str, Call]:
    return {
        node.name: Call(node.template, _given(node.arguments or ()))
        for node in nodes
        if isinstance(getattr(node, "template", None), StepTemplate) and node.template.component is not None
    }


def _given(arguments: Iterable[Any]) -> dict[str, Any]:
    given = {name: value for each in arguments if isinstance(each, dict) for name, value in each.items()}
    return {name: value.from_ if isinstance(value, Artifact) else value for name, value in given.items()}
