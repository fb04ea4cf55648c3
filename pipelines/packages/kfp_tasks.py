"""What each task of a pipeline's IR is given, as far as that is known before it runs, for its step to judge.

A constant is known, and a parameter of the pipeline that has a value, through all pipelines that it is handed
on to. What another task makes is not, but for the parts of a dataset that `convert` will make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from elastic_runtime.errors import InputError
from elasticdl_components import argo, convert
from elasticdl_components.parts import Made, parts_made

Given = dict[str, Any]
_UNKNOWN = object()
_INTEGER = pipeline_spec_pb2.ParameterType.NUMBER_INTEGER


def check(spec: Any, parameters: Mapping[str, Any]) -> None:
    """Raise if a step of ours would refuse what its task is given; of others nothing is known."""
    for task, given in _tasks(spec, spec.root, _defaults(spec.root) | {**parameters}):
        step = _step(spec.components[task.component_ref.name])
        try:
            if step is not None:
                step.refuse(given, f"step {task.task_info.name}")
        except ValueError as error:
            raise InputError(str(error)) from None


def _tasks(spec: Any, owner: Any, known: Given) -> Iterator[tuple[Any, Given]]:
    """Each task that runs something, and its inputs; those that are not known yet as well."""
    tasks = owner.dag.tasks
    called = {name: spec.components[task.component_ref.name] for name, task in tasks.items()}
    told = {name: _parameters(task, called[name], known) for name, task in tasks.items()}
    for name, task in tasks.items():
        given = {**told[name]}
        for port, source in task.inputs.artifacts.items():
            made = source.task_output_artifact
            given[port] = known.get(source.component_input_artifact, _UNKNOWN)
            if made.output_artifact_key == "dataset" and _step(called[made.producer_task]) is convert:
                given[port] = Made(parts_made(told[made.producer_task]))
        if called[name].WhichOneof("implementation") == "dag":
            yield from _tasks(spec, called[name], _defaults(called[name]) | given)
        else:
            yield task, given


def _parameters(task: Any, called: Any, known: Given) -> Given:
    found, ports = {}, called.input_definitions.parameters
    for name, source in task.inputs.parameters.items():
        found[name] = known.get(source.component_input_parameter, _UNKNOWN)
        # A task whose image another one makes has an input that no component has; looking it up makes one.
        if source.WhichOneof("kind") == "runtime_value" and name in ports:
            found[name] = _value(source.runtime_value.constant, ports[name])
    return found


def _defaults(owner: Any) -> Given:
    ports = owner.input_definitions.parameters.items()
    return {name: _value(port.default_value, port) for name, port in ports if port.HasField("default_value")}


def _value(value: Any, port: Any) -> Any:
    """As Python has it; in the IR all numbers have fractions."""
    found = json_format.MessageToDict(value)
    return int(found) if port.parameter_type == _INTEGER and isinstance(found, float) else found


def _step(called: Any) -> Any:
    """Which of our components it is, wherever it was loaded from."""
    for template in argo.TEMPLATES:
        [own] = template.component.pipeline_spec.components.values()
        if own.input_definitions == called.input_definitions:
            return template.component
    return None
