"""The text of `component.py`: KFP reads a function's source, so what `JobSpec` has is written out in it."""

from __future__ import annotations

import textwrap

from elastic_runtime.spec.flags import Flag
from elastic_runtime.steps.options import default_of, of_a_step

_COMPONENT = '''\
"""Train a model elastically. Generated from `JobSpec` by `make generate`; do not edit."""

from typing import NamedTuple

from kfp import dsl

from elastic_runtime.steps.options import check

from ..image import IMAGE
from ..step import step

_FOR_THE_PODS_TOO = [
    dsl.TaskConfigPassthrough(field=field, apply_to_task=True) for field in dsl.TaskConfigField
]


@step(cached=False, check=check)
@dsl.component(base_image=IMAGE, install_kfp_package=False, task_config_passthroughs=_FOR_THE_PODS_TOO)
def train(
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
    pods: dsl.Output[dsl.Markdown],
    task_config: dsl.TaskConfig,
{required}
    training_dataset: dsl.Input[dsl.Dataset] = None,
    training_split: str = "",
    validation_dataset: dsl.Input[dsl.Dataset] = None,
    validation_split: str = "",
{inputs}
) -> NamedTuple("Trained", [("steps", int), ("best_metric", float)]):
    """Train a model on workers that come and go; the step is the job's master.

    What is set on the task the ordinary way (resources, variables, volumes, tolerations, node selector,
    affinity) is the step's, and that of workers and parameter servers if these are pods of their own. The
    step may be retried: it goes on with its job if these are, or if run_dir outlives the step's own pod.
    Otherwise it begins anew.

    Args:
{texts}

    Returns:
        steps: How many updates the model had.
        best_metric: The best value of the first metric over all evaluations; without any, the last loss. Of a
            model that has diverged it is the worst there is: 1.8e308 of what should fall, else -1.8e308.
    """
    given = dict(locals())
    from elastic_runtime.steps import carry_out
    from elastic_runtime.steps.train import train

    return carry_out(train, given)
'''
_TEXTS = {
    "model": "The finished model: `model.keras` and `saved_model`, and in its metadata how to load it.",
    "metrics": "The last evaluation's figures, and what the job came to; written all along.",
    "report": "Curves, pods, and what happened, as one page; written all along.",
    "pods": "Every pod and what became of it; written all along.",
    "task_config": "Filled by KFP with what was set on the task.",
    "training_dataset": "The records to train on, instead of training_data.",
    "training_split": "The part of training_dataset, if it was split.",
    "validation_dataset": "The records to evaluate on, instead of validation_data.",
    "validation_split": "The part of validation_dataset, if it was split; without that, of training_dataset.",
}
_GIVEN_OTHERWISE = ("job_name", "training_data")
_TYPES = {bool: "bool", int: "int", float: "float"}


def component() -> str:
    """The whole module."""
    options = of_a_step()
    texts = _TEXTS | {flag.name: _text(flag) for flag in options}
    return _COMPONENT.format(
        required="\n".join(f"    {flag.name}: str," for flag in options if _is_required(flag)),
        inputs="\n".join(f"    {_input(flag)}," for flag in options if not _is_required(flag)),
        texts="\n".join(_entry(name, text) for name, text in texts.items()),
    )


def _is_required(flag: Flag) -> bool:
    return "train" in flag.extra.required and flag.name not in _GIVEN_OTHERWISE


def _input(flag: Flag) -> str:
    default = default_of(flag)
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{flag.name}: {_TYPES.get(flag.kind, 'str')} = {shown}"


def _text(flag: Flag) -> str:
    words = f"; one of {', '.join(flag.choices)}" if flag.choices else ""
    default = f"; default: {flag.extra.shown}" if flag.extra.shown else ""
    text = f"{flag.text}{words}{default}.".replace("`", "")
    return text[0].upper() + text[1:]


def _entry(name: str, text: str) -> str:
    return textwrap.fill(
        f"{name}: {text}",
        width=108,
        initial_indent=" " * 8,
        subsequent_indent=" " * 12,
        break_on_hyphens=False,
        break_long_words=False,
    )
