"""KFP's server says of an input no type that its executor knows, so that goes by the function's annotation:
one under `typing.Optional` cannot be made, and the step fails before it begins."""

import importlib

import pytest
from kfp import dsl
from kfp.dsl.executor import create_artifact_instance

STEPS = ("build_image", "convert", "evaluate", "predict", "train")
AS_THE_SERVER_GIVES_IT = {"name": "5", "type": {"instanceSchema": ""}, "uri": "minio://bucket/key"}


@pytest.mark.parametrize("step", STEPS)
def test_the_executor_can_make_every_artifact_that_a_step_is_given(step):
    component = getattr(importlib.import_module(f"components.{step}.component"), step)
    inputs = component.component_spec.inputs or {}
    given = {name for name, told in inputs.items() if told.type.startswith("system.")}
    assert given
    for name in given:
        annotation = component.python_func.__annotations__[name]
        made = create_artifact_instance(AS_THE_SERVER_GIVES_IT, fallback_artifact_cls=annotation)
        assert isinstance(made, dsl.Artifact), name
        assert made.uri == "minio://bucket/key"
