"""`JobSpec`: every option of a job, once.

It is checked when it is made, and what follows from other options is filled in then, so nobody downstream
asks twice. It travels as JSON or as arguments; both give back an equal spec.
"""

from __future__ import annotations

import enum
import hashlib
import json
from typing import Any

from pydantic import BaseModel, ValidationError, ValidationInfo, model_validator

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.spec.flags import Command, Flag, flags
from elastic_runtime.spec.params import parse_params
from elastic_runtime.spec.place import Elasticity, Job, Kubernetes, Process
from elastic_runtime.spec.priorities import WorkerPriority, parse_worker_priority
from elastic_runtime.spec.settle import settle
from elastic_runtime.spec.volumes import Volume, parse_volumes
from elastic_runtime.spec.work import Checkpoints, Data, Evaluation, Model, Training


class Kind(enum.StrEnum):
    """What a job is for; it follows from the data it is given."""

    TRAINING = "train"
    EVALUATION = "evaluate"
    PREDICTION = "predict"


class JobSpec(Job, Model, Data, Training, Evaluation, Checkpoints, Elasticity, Kubernetes, Process):
    """The whole description of a job."""

    @model_validator(mode="after")
    def _settle(self, info: ValidationInfo) -> JobSpec:
        changes, notices = settle(self)
        self.__dict__.update(changes)  # frozen for everyone but this, which ends its making
        if info.context is not None:
            info.context.extend(notices)
        return self

    @classmethod
    def make(cls, values: dict[str, Any], notices: list[str]) -> JobSpec:
        """A spec from values, typed or as text; what users should know is added to `notices`."""
        try:
            return cls.model_validate(values, context=notices)
        except ValidationError as error:
            raise _in_words(error) from None

    @classmethod
    def check_each(cls, values: dict[str, Any]) -> None:
        """Refuse a value that is wrong whatever the others are."""
        for group in cls.__bases__:
            assert issubclass(group, BaseModel)
            try:
                group.model_validate({name: values[name] for name in group.model_fields if name in values})
            except ValidationError as error:
                raise _in_words(error) from None

    @property
    def kind(self) -> Kind:
        """What the job is for."""
        if self.prediction_data:
            return Kind.PREDICTION
        return Kind.EVALUATION if self.validation_data and not self.training_data else Kind.TRAINING

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """`volume`, parsed."""
        return parse_volumes(self.volume)

    @property
    def worker_priority(self) -> WorkerPriority:
        """`worker_pod_priority`, parsed."""
        return parse_worker_priority(self.worker_pod_priority)

    @property
    def model_arguments(self) -> dict[str, object]:
        """`model_params`, parsed."""
        return parse_params(self.model_params)

    @property
    def reader_arguments(self) -> dict[str, object]:
        """`data_reader_params`, parsed."""
        return parse_params(self.data_reader_params)

    @property
    def digest(self) -> str:
        """Equal for jobs that do the same work on the same data, however many pods do it."""
        return hashlib.sha256(json.dumps(self._identity(), sort_keys=True).encode()).hexdigest()[:16]

    def differences(self, other: JobSpec) -> tuple[str, ...]:
        """The options that make the other job's work a different one, as `--minibatch_size=64 became 32`."""
        ours, theirs = self._identity(), other._identity()
        return tuple(
            f"--{name}={ours[name]} became {theirs[name]}" for name in ours if ours[name] != theirs[name]
        )

    def to_json(self) -> str:
        """All that differs from the defaults."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def from_json(cls, text: str) -> JobSpec:
        """The inverse of `to_json`."""
        try:
            return cls.model_validate_json(text, context=[])
        except ValidationError as error:
            raise _in_words(error) from None

    def to_args(self, command: Command | None = None) -> list[str]:
        """Arguments that make this spec again, for `command` or the verb of this kind of job."""
        command = command or self.kind.value
        return [
            f"{flag.option}={_text(value)}"
            for flag in flags(JobSpec)
            if command in flag.extra.takes and (value := getattr(self, flag.name)) != flag.default(command)
        ]

    def _identity(self) -> dict[str, Any]:
        return {flag.name: getattr(self, flag.name) for flag in flags(JobSpec) if flag.extra.identity}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_words(error: ValidationError) -> InputError:
    """The first mistake, with what was given and what would be accepted."""
    first = error.errors(include_url=False)[0]
    known: dict[str, Flag] = {flag.name: flag for flag in flags(JobSpec)}
    name = str(first["loc"][0]) if first["loc"] else ""
    if name not in known:
        what = f"unknown option {name!r}" if name else f"not a job description: {first['msg']}"
        return InputError(what, remedy=nearest(name, known) if name else "")
    flag, given = known[name], first["input"]
    remedy = f"give {flag.form}"
    if flag.choices and isinstance(given, str):
        remedy += f"; {guess}" if (guess := nearest(given, flag.choices)).startswith("did") else ""
    return InputError(f"got {given!r}", where=flag.option, remedy=remedy)
