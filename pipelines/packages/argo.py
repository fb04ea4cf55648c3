"""A pipeline as Argo takes it: the manifest of the workflow that Hera has made.

A step's input becomes an argument of its task, a parameter one of the workflow's arguments. Of a template
that is elsewhere (`templateRef`) no more inputs are known than the task gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hera.workflows import Workflow

from elastic_runtime.errors import InputError
from elasticdl_components.argo import TEMPLATES, StepTemplate, handed
from elasticdl_components.image import IMAGE
from pipelines.packages import Change

_PARAMETER = "{{{{workflow.parameters.{}}}}}"
_IMAGE = "image_name"
_UNKNOWN = object()


class ArgoPackage:
    """A workflow, compiled."""

    kind = "argo"
    engine = "Argo"
    form = "the Hera workflow"

    def __init__(self, workflow: Workflow, name: str) -> None:
        self.name = name
        self.manifest: dict[str, Any] = workflow.to_dict()
        """As Argo's API takes it."""
        given = {"value", "valueFrom"}
        self._needed = [port["name"] for port in _parameters(self.manifest["spec"]) if not given & {*port}]
        self._given: set[str] = set()
        """The parameters that were changed."""

    def steps(self) -> list[str]:
        """The tasks that run a pod."""
        return [task["name"] for task in self._tasks()]

    def names(self, step: str = "") -> set[str]:
        """Parameters only: what an artifact is, another step says."""
        if not step:
            return {port["name"] for port in _parameters(self.manifest["spec"])}
        ports = [port for task in self._tasks(step) for port in (*self._inputs(task), *_parameters(task))]
        return {port["name"] for port in ports}

    def missing(self) -> dict[str, str]:
        """Those without a value in the workflow that were not given, or as nothing, and what they are."""
        ports = [port for port in _parameters(self.manifest["spec"]) if port["name"] in self._needed]
        return {port["name"]: port.get("description", "") for port in ports if not port.get("value")}

    def change(self, change: Change) -> None:
        """Write the value among the arguments."""
        self._given |= set() if change.step else {change.name}
        for owner in [*self._tasks(change.step)] if change.step else [self.manifest["spec"]]:
            given = owner.setdefault("arguments", {}).setdefault("parameters", [])
            ports = [port for port in (*given, *self._inputs(owner)) if port["name"] == change.name]
            if not ports:  # a task of the same name, elsewhere, for something else
                continue
            value = _allowed(change, [word for port in ports for word in port.get("enum") or []])
            if ports[0] not in given:
                given.append({"name": change.name})
            next(port for port in given if port["name"] == change.name)["value"] = value

    def run_in(self, image: str) -> bool:
        """The parameter `image_name` unless it was given, and what has the components' own for a default."""
        ports = {port["name"]: port for port in _parameters(self.manifest["spec"])}
        meant = {name for name, port in ports.items() if name == _IMAGE or port.get("value") == IMAGE}
        for name in meant - self._given:
            ports[name]["value"] = image
        unsaid = (port for task in self._tasks() for port in self._defaults(task))
        defaults = [port for port in unsaid if port["default"] == IMAGE]
        for port in defaults:
            port["default"] = image
        return bool(meant - self._given or defaults)

    def check(self) -> None:
        """Refuse what a step would refuse, given constants and the values of the workflow's arguments."""
        missing, ports = self.missing(), _parameters(self.manifest["spec"])
        known = [port for port in ports if "value" in port and port["name"] not in missing]
        values = {_PARAMETER.format(port["name"]): str(port["value"]) for port in known}
        for template in self._templates().values():
            calls = {task["name"]: self._call(task, values) for task in _tasks(template)}
            try:
                handed.refuse({name: call for name, call in calls.items() if call is not None})
            except (TypeError, ValueError) as error:
                raise InputError(str(error)) from None

    def text(self) -> str:
        """The manifest as YAML, written by Hera."""
        return str(Workflow.from_dict(self.manifest).to_yaml())

    def _tasks(self, step: str = "") -> Iterator[dict[str, Any]]:
        """Each task, or those of this name, that calls no other tasks."""
        for template in self._templates().values():
            for task in _tasks(template):
                called = self._templates().get(task.get("template", ""), {})
                if not {"dag", "steps"} & {*called} and step in {"", task["name"]}:
                    yield task

    def _inputs(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """What the template of a task takes."""
        called = self._templates().get(task.get("template", ""), {})
        return list(called.get("inputs", {}).get("parameters", []))

    def _defaults(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """Of these, those that have a value although the task gives none."""
        given = {port["name"] for port in _parameters(task)}
        return [port for port in self._inputs(task) if "default" in port and port["name"] not in given]

    def _call(self, task: dict[str, Any], values: dict[str, str]) -> handed.Call | None:
        """What a task calls and gives, if that is a template of ours; in texts, parameters have values."""
        step, ports = self._step(task), _parameters(task)
        given = {port["name"]: _known(port.get("value", _UNKNOWN), values) for port in ports}
        artifacts = task.get("arguments", {}).get("artifacts", [])
        given |= {port["name"]: port.get("from", _UNKNOWN) for port in artifacts}
        return None if step is None else handed.Call(step, given)

    def _step(self, task: dict[str, Any]) -> StepTemplate | None:
        """Which of our templates a task calls, whatever it is called here."""
        container = self._templates().get(task.get("template", ""), {}).get("container", {})
        words = [*container.get("command", []), *container.get("args", [])]
        return next((each for each in TEMPLATES if words == [*each.command, *each.args]), None)

    def _templates(self) -> dict[str, dict[str, Any]]:
        return {template["name"]: template for template in self.manifest["spec"].get("templates", [])}


def _tasks(template: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a DAG or of steps; other templates have none."""
    in_steps = [each for group in template.get("steps", []) for each in group]
    return [*template.get("dag", {}).get("tasks", []), *in_steps]


def _parameters(owner: dict[str, Any]) -> list[dict[str, Any]]:
    return list(owner.get("arguments", {}).get("parameters", []))


def _known(value: Any, values: dict[str, str]) -> Any:
    """With the values of the parameters in its text."""
    for parameter, text in values.items():
        value = value.replace(parameter, text) if isinstance(value, str) else value
    return value


def _allowed(change: Change, words: list[str]) -> str:
    """The value, if there are none but these and it is among them; `True` is `true`."""
    if not words or change.text in words or "{{" in change.text:
        return change.text
    if change.text.lower() in words:
        return change.text.lower()
    remedy = f"give one of {', '.join(map(repr, words))}"
    raise InputError(f"got {change.text!r}", where=change.option, remedy=remedy)
