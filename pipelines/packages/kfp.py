"""A pipeline as Kubeflow Pipelines takes it: the IR that KFP's own compiler has made.

A step's input becomes a constant of its task in the IR, whatever it was before; a parameter becomes the
parameter's default. `kfp.local` runs the same IR, so a change means the same on every engine.
"""

from __future__ import annotations

import copy
import graphlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kfp.compiler import Compiler
from kfp.dsl.base_component import BaseComponent
from kfp.pipeline_spec import pipeline_spec_pb2

from elastic_runtime.errors import InputError
from elasticdl_components.image import IMAGE
from pipelines.packages import Change, kfp_tasks

_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "NUMBER_INTEGER": ("Integer", (int,)),
    "NUMBER_DOUBLE": ("Float", (int, float)),
    "BOOLEAN": ("Boolean", (bool,)),
    "LIST": ("List", (list,)),
    "STRUCT": ("Dict", (dict,)),
}
"""By KFP's name for it: what a value is called, and what JSON makes of it. Anything else is text."""
GROUP = re.compile(r"(exit-handler|condition|condition-branches|for-loop)-\d+")
"""What KFP's compiler calls the tasks that it makes of `ExitHandler` and the like."""
_FILLED_BY_KFP = ("TASK_CONFIG", "TASK_FINAL_STATUS")


class KfpPackage:
    """A pipeline function, compiled."""

    kind = "kfp"
    engine = "Kubeflow Pipelines"
    form = "the KFP function"

    def __init__(self, pipeline: BaseComponent) -> None:
        self.component = copy.deepcopy(pipeline)
        self.name = str(pipeline.name)
        self.parameters: dict[str, Any] = {}
        """Those that were given."""

    def steps(self) -> list[str]:
        """The tasks that run something, as they follow each other; those of a nested pipeline, too."""
        return [task.task_info.name for task in self._in_order(self.component.pipeline_spec.root.dag)]

    def paths(self) -> list[str]:
        """The same, those of a nested pipeline with its name: `training-2/train`."""
        return [*self._paths(self.component.pipeline_spec.root.dag)]

    def components(self) -> list[str]:
        """The same as the local runner calls them, by their components."""
        tasks = self._in_order(self.component.pipeline_spec.root.dag)
        return [task.component_ref.name.removeprefix("comp-") for task in tasks]

    def names(self, step: str = "") -> set[str]:
        """Parameters only: what an artifact is, another step says."""
        return {*self._kinds(step)}

    def missing(self) -> dict[str, str]:
        """Those without a default that were not given, or as nothing, and what they are."""
        ports = self.component.pipeline_spec.root.input_definitions.parameters
        needed = {name: port.description for name, port in ports.items() if not port.is_optional}
        given = {name for name, value in self.parameters.items() if value != ""}
        return {name: text for name, text in needed.items() if name not in given}

    def change(self, change: Change) -> None:
        """Write the value, as one of the input's type, into the IR."""
        value = _value(change, self._kinds(change.step)[change.name])
        if not change.step:
            self.parameters[change.name] = value
            return
        for task in self._tasks(change.step):
            found = task.inputs.parameters[change.name]
            found.Clear()
            constant = found.runtime_value.constant
            if isinstance(value, list):
                constant.list_value.extend(value)
            elif isinstance(value, dict):
                constant.struct_value.update(value)
            elif isinstance(value, str):
                constant.string_value = value
            elif isinstance(value, bool):
                constant.bool_value = value
            else:
                constant.number_value = value

    def try_once(self) -> None:
        """Have no task repeated that fails."""
        spec = self.component.pipeline_spec
        for owner in (spec.root, *spec.components.values()):
            for task in owner.dag.tasks.values():
                task.ClearField("retry_policy")

    def run_in(self, image: str) -> bool:
        """What has the components' own image for a default, has this: what `build_image` builds on does."""
        spec = self.component.pipeline_spec
        executors = spec.deployment_spec["executors"].values()
        containers = [each["container"] for each in executors if "container" in each]
        ours = [container for container in containers if container["image"] == IMAGE]
        for container in ours:
            container["image"] = image
        for owner in (spec.root, *spec.components.values()):
            for port in owner.input_definitions.parameters.values():
                if port.default_value.string_value == IMAGE:
                    port.default_value.string_value = image
        return bool(ours)

    def check(self) -> None:
        """Refuse what a step would refuse, given constants and the values of parameters."""
        missing = self.missing()
        given = {name: value for name, value in self.parameters.items() if name not in missing}
        kfp_tasks.check(self.component.pipeline_spec, given)

    def text(self) -> str:
        """The IR as YAML, written by KFP."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "pipeline.yaml")
            Compiler().compile(self.component, str(file), pipeline_parameters=self.parameters)
            return file.read_text(encoding="utf-8")

    def _kinds(self, step: str) -> dict[str, str]:
        """The type of each parameter, of a step or of the pipeline, by KFP's name for it."""
        spec, found = self.component.pipeline_spec, {}
        owners = [spec.components[task.component_ref.name] for task in self._tasks(step)]
        for owner in owners if step else [spec.root]:
            for name, port in owner.input_definitions.parameters.items():
                kind = pipeline_spec_pb2.ParameterType.ParameterTypeEnum.Name(port.parameter_type)
                if kind not in _FILLED_BY_KFP:
                    found[name] = kind
        return found

    def _in_order(self, dag: Any) -> Iterator[Any]:
        """Of the tasks of a DAG, each behind those that it waits for."""
        for name in _order(dag):
            called = self._called(dag.tasks[name])
            if called.WhichOneof("implementation") == "dag":
                yield from self._in_order(called.dag)
            else:
                yield dag.tasks[name]

    def _paths(self, dag: Any) -> Iterator[str]:
        for name in _order(dag):
            called = self._called(dag.tasks[name])
            if called.WhichOneof("implementation") == "dag":
                inner = "" if GROUP.fullmatch(name) else f"{name}/"
                yield from (f"{inner}{path}" for path in self._paths(called.dag))
            else:
                yield name

    def _called(self, task: Any) -> Any:
        return self.component.pipeline_spec.components[task.component_ref.name]

    def _tasks(self, step: str = "") -> Iterator[Any]:
        """Each task that runs something, or those of this name."""
        spec = self.component.pipeline_spec
        for dag in (owner.dag for owner in (spec.root, *spec.components.values())):
            for task in dag.tasks.values():
                runs = spec.components[task.component_ref.name].WhichOneof("implementation") != "dag"
                if runs and step in {"", task.task_info.name}:
                    yield task


def _order(dag: Any) -> Iterator[str]:
    """The tasks of a DAG, each behind those that it waits for; the IR itself has no order."""
    waits_for = {name: sorted(dag.tasks[name].dependent_tasks) for name in sorted(dag.tasks)}
    yield from graphlib.TopologicalSorter(waits_for).static_order()


def _value(change: Change, kind: str) -> Any:
    if kind not in _KINDS:
        return change.text
    called, types = _KINDS[kind]
    try:
        value = json.loads(change.text.lower() if kind == "BOOLEAN" else change.text)
    except ValueError:
        value = None
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "BOOLEAN"):
        raise InputError(f"got {change.text!r}", where=change.option, remedy=f"give {called}")
    return value
