"""A component as a template of an Argo workflow: the same step, its command line spelled out.

Within a `DAG` or `Steps` of Hera a template is called with the component's inputs by name; a wrong name or
value is told when the workflow is compiled, not when it runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hera.workflows import (
    Artifact,
    Container,
    EmptyDirVolume,
    Env,
    FieldEnv,
    NoneArchiveStrategy,
    Parameter,
    RetryPolicy,
    RetryStrategy,
    SecretVolume,
    Step,
    Task,
    models,
)

from elastic_runtime.errors import ElasticError, nearest
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.resources import parse_resources
from elastic_runtime.steps.options import known

from ..image import IMAGE
from . import ports
from .pod_patch import PATCH
from .ports import Port

PLACE = "/elasticdl"
"""The pod's own folder, as the pods of a job have it."""
_COMMAND = ["python", "-m", "elastic_runtime.steps"]
_INPUTS, _OUTPUTS = "/inputs", f"{PLACE}/outputs"
_OF_ALL = (
    Port(name="image_name", text="Image of the step.", default=IMAGE),
    Port(
        name="volume",
        text="Mounts: claim_name=c,mount_path=/a;host_path=/b,mount_path=/b; also sub_path.",
        default="",
    ),
    Port(
        name="image_pull_policy",
        text="When the node pulls the image; default: as Kubernetes does, mostly if it lacks that name.",
        default="",
        words=("", "Always", "IfNotPresent", "Never"),
    ),
    Port(name="step_resource_request", text="What the step itself asks for: cpu=1,memory=2Gi.", default=""),
)
_PULL_POLICY = "{{inputs.parameters.image_pull_policy}}"
_LOGIN = Port(
    name="login_secret",
    text="Secret of type kubernetes.io/dockerconfigjson that opens the registries; there need not be one.",
    default="registry-login",
)
_LOGINS = "/secrets/registry"
_LOGIN_VOLUME = SecretVolume(
    name="logins",
    secret_name=f"{{{{inputs.parameters.{_LOGIN.name}}}}}",
    mount_path=_LOGINS,
    optional=True,
)
_VERDICTS = ("1", "2", "130")
"""Exit codes of a step that has failed, was wrong or was stopped, and would say so again; one whose store was
away (69) may not."""
_NO_POD = "^(Pod .* is invalid: |Error applying PodSpecPatch)"
"""What is said of a pod that cannot be, however often it is made."""
_SETTINGS_OF_TASKS = {field.name for kind in (Task, Step) for field in dataclasses.fields(kind)}


@dataclass(kw_only=True)
class StepTemplate(Container):
    """Hera's template of a container, which knows what may be given to it."""

    description: str = ""
    component: Any = None
    """It sees the arguments when a workflow is compiled."""

    def __call__(self, *, name: str = "", **given: Any) -> Task | Step:
        """A task, or a step, of the workflow that is being written."""
        known = {port.name for port in self.inputs}
        for each in given:
            if each not in known | _SETTINGS_OF_TASKS:
                raise TypeError(f"{self.name}() has no input {each!r}, {nearest(each, known)}")
        arguments = {each: value for each, value in given.items() if each in known}
        self.refuse(arguments, f"{self.name}()")
        for port in self.inputs:  # Argo has names of the one kind and of the other, and would miss this one
            value, is_artifact = arguments.get(port.name), isinstance(port, Artifact)
            if value is not None and isinstance(value, Artifact) != is_artifact:
                wanted = "an artifact, as get_artifact() of a step gives it" if is_artifact else "no artifact"
                raise TypeError(f"{self.name}(): {port.name} is {wanted}")
        others = {each: value for each, value in given.items() if each not in known}
        return super().__call__(name=name or self.name, arguments=arguments, **others)

    def _build_image_pull_policy(self) -> str | None:
        """Hera takes any policy, but not the place of a parameter that holds one."""
        if self.image_pull_policy == _PULL_POLICY:
            return _PULL_POLICY
        return cast("str | None", super()._build_image_pull_policy())

    def refuse(self, arguments: Mapping[str, Any], called: str) -> None:
        """Say what is wrong with these inputs, as far as it is known before anything runs."""
        missing = [port.name for port in self.inputs if _is_needed(port) and port.name not in arguments]
        if missing:
            raise TypeError(f"{called} needs {', '.join(missing)}")
        for port in self.inputs:
            value = arguments.get(port.name)
            words = port.enum if isinstance(port, Parameter) else None
            if words and isinstance(value, str) and value not in words and "{{" not in value:
                raise ValueError(
                    f"{called}: {port.name}={value!r} is not one of {', '.join(filter(None, words))}"
                )
        if self.component is not None:
            own = self.component.component_spec.inputs or {}
            self.component.refuse({name: each for name, each in arguments.items() if name in own}, called)
        plain = known(arguments)
        try:
            JobSpec.check_each({name: plain[name] for name in ("image_name", "volume") if name in plain})
        except ElasticError as error:
            raise ValueError(f"{called}: {error}") from None
        try:
            parse_resources(str(plain.get("step_resource_request", "")))
        except ElasticError as error:
            raise ValueError(f"{called}: step_resource_request: {error}") from None


def template(
    component: Any,
    *,
    defaults: Mapping[str, str] | None = None,
    account: str = "",
    logins: bool = False,
    again_for_outputs: bool = True,
) -> StepTemplate:
    """The template of a KFP component; `defaults` are those that only Argo knows.

    With `logins` it has those of the secret that its input `login_secret` names, if there is one. Unless
    `again_for_outputs`, a step that has succeeded is not run again because Argo could not take its outputs.
    """
    name = component.python_func.__name__
    taken = {port.name: port for port in ports.inputs(component)}
    own = {port.name: port for port in (*_OF_ALL, *([_LOGIN] if logins else [])) if port.name not in taken}
    offered = [_with(port, defaults or {}) for port in (taken | own).values()]
    made = [*ports.outputs(component)]
    return StepTemplate(
        name=name.replace("_", "-"),
        image="{{inputs.parameters.image_name}}",
        image_pull_policy=_PULL_POLICY,
        command=_COMMAND,
        args=[name, *map(_given, taken.values()), *map(_asked, made)],
        inputs=[_input(port) for port in offered],
        outputs=[_output(port) for port in made],
        env=[
            FieldEnv(name="ARGO_POD_NAME", field_path="metadata.name"),
            *([Env(name="DOCKER_CONFIG", value=_LOGINS)] if logins else []),
        ],
        volumes=[
            EmptyDirVolume(name="elasticdl", mount_path=PLACE),
            *([_LOGIN_VOLUME] if logins else []),
        ],
        pod_spec_patch=PATCH,
        annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        termination_message_policy="FallbackToLogsOnError",
        retry_strategy=_retry(_VERDICTS if again_for_outputs else ("0", *_VERDICTS)),
        service_account_name=account or None,
        description=str(component.component_spec.description),
        component=component,
    )


def _retry(verdicts: Sequence[str]) -> RetryStrategy:
    """A step that was lost runs again."""
    return RetryStrategy(
        limit=20,
        retry_policy=RetryPolicy.always,
        expression=f"lastRetry.exitCode not in [{', '.join(map(repr, verdicts))}]"
        f" && not (lastRetry.message matches {_NO_POD!r})",
        backoff=models.Backoff(duration="5s"),  # a maxDuration would end the training itself
    )


def _with(port: Port, defaults: Mapping[str, str]) -> Port:
    return dataclasses.replace(port, default=defaults.get(port.name, port.default))


def _given(port: Port) -> str:
    value = f"{_INPUTS}/{port.file}" if port.file else f"{{{{inputs.parameters.{port.name}}}}}"
    return f"--{port.option}={value}"


def _asked(port: Port) -> str:
    return f"--{port.option}={_OUTPUTS}/{port.file or port.name}"


def _input(port: Port) -> Artifact | Parameter:
    if port.file:
        return Artifact(
            name=port.name,
            path=f"{_INPUTS}/{port.file}",
            mode=0o755,  # Argo brings it as root, and the step is somebody else
            recurse_mode=True,
            optional=port.default is not None,
        )
    default = {} if port.default is None else {"default": port.default}
    return Parameter(name=port.name, description=port.text, enum=[*port.words] or None, **default)


def _output(port: Port) -> Artifact | Parameter:
    place = f"{_OUTPUTS}/{port.file or port.name}"
    if port.file:
        return Artifact(name=port.name, path=place, archive=NoneArchiveStrategy())
    return Parameter(name=port.name, description=port.text, value_from=models.ValueFrom(path=place))


def _is_needed(port: Any) -> bool:
    return not port.optional if isinstance(port, Artifact) else port.default is None
