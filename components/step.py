"""A component that says what is wrong with its arguments when a pipeline is compiled, not when it runs.

KFP tells that a name is unknown; `Step` tells which one was meant. A step that must run each time, whatever
ran before, says so itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kfp.dsl import PipelineTask
from kfp.dsl.pipeline_task import TaskState
from kfp.dsl.python_component import PythonComponent

from elastic_runtime.errors import ElasticError, nearest
from elastic_runtime.steps.command import value_of

from .parts import check_parts

Check = Callable[[Mapping[str, Any]], None]
_KINDS = {"Integer": int, "Float": float, "Boolean": bool}


class Step(PythonComponent):
    """A KFP component with a little more care for whoever calls it."""

    def __init__(self, component: PythonComponent, *, cached: bool, check: Check | None) -> None:
        super().__init__(component.component_spec, component.python_func)
        self.cached, self._check = cached, check

    def __call__(self, *args: Any, **given: Any) -> PipelineTask:
        """A task of this component in the pipeline that is being written."""
        inputs, called = self.component_spec.inputs or {}, f"{self.python_func.__name__}()"
        for name in given:
            if name not in inputs:
                raise TypeError(f"{called} has no input {name!r}, {nearest(name, inputs)}")
        self.refuse(given, called)
        for name, value in given.items():
            if type(value) is int and inputs[name].type == "Float":  # to KFP 60 is no number with fractions
                given[name] = float(value)
        task = super().__call__(*args, **given)
        if not self.cached and task.state is TaskState.FUTURE:
            task.set_caching_options(False)
        return task

    def refuse(self, given: Mapping[str, Any], called: str) -> None:
        """Say what is wrong with these inputs, as far as it is known before anything runs."""
        inputs = self.component_spec.inputs or {}
        try:
            values = {name: _value(name, each, inputs) for name, each in given.items() if each is not None}
            if self._check is not None:
                self._check(values)
            check_parts(values)
        except ElasticError as error:
            raise ValueError(f"{called}: {error}") from None


def _value(name: str, given: Any, inputs: Mapping[str, Any]) -> Any:
    """What a text means where a number or a truth is wanted; engines have texts for everything."""
    kind = _KINDS.get(inputs[name].type) if name in inputs else None
    is_text = isinstance(given, str) and "{{" not in given
    return value_of(name, given, kind) if kind and is_text else given


def step(*, cached: bool = True, check: Check | None = None) -> Callable[[PythonComponent], Step]:
    """Make a KFP component a `Step`; `check` sees the arguments when a pipeline is compiled."""
    return lambda component: Step(component, cached=cached, check=check)
