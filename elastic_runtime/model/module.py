"""Loads a model module: one Python file of the zoo whose symbols say what to train, on what, and how.

The symbols are looked up under their own names or those the user gives, checked at once, and handed on as a
`ModelModule`, in which contracts of every age look alike. `docs/model_contract.md` is the contract in the
user's words.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from elastic_runtime.errors import ElasticError, InputError, nearest
from elastic_runtime.model.old_contract import any_feed, labels_first, scheduler_callback
from elastic_runtime.model.user_code import user_code
from elastic_runtime.model.zoo import Zoo

SHAPES = {
    "custom_model": "custom_model() -> keras.Model",
    "feed": "feed(dataset, mode, metadata) -> tf.data.Dataset of (features, labels)",
    "loss": "loss(labels, predictions) -> tensor",
    "optimizer": "optimizer(lr=0.01) -> keras.optimizers.Optimizer",
    "eval_metrics_fn": "eval_metrics_fn() -> {name: metric(labels, predictions)}",
    "callbacks": "callbacks() -> [keras.callbacks.Callback]",
    "custom_data_reader": "custom_data_reader(data_origin, records_per_task=None, **kwargs) -> reader",
    "prediction_outputs_processor": "a class PredictionOutputsProcessor with process(predictions, worker_id)",
}
_DEFAULT_NAMES = {"prediction_outputs_processor": "PredictionOutputsProcessor"}


@dataclass(frozen=True)
class ModelModule:
    """A loaded model module; every `create_...` makes a new thing, and tells errors as the user's."""

    path: Path
    feed: Callable[..., Any]
    loss: Callable[[Any, Any], Any]
    create_model: Callable[[], keras.Model]
    create_optimizer: Callable[[], keras.optimizers.Optimizer]
    create_metrics: Callable[[], Mapping[str, Any]]
    create_callbacks: Callable[[], list[keras.callbacks.Callback]]
    custom_data_reader: Callable[..., Any] | None
    create_prediction_outputs_processor: Callable[[], Any] | None


def load(
    path: Path,
    symbol: str | None = None,
    *,
    names: Mapping[str, str] | None = None,
    model_params: Mapping[str, Any] | None = None,
    zoo: Path | None = None,
) -> ModelModule:
    """Load the module at `path`.

    `symbol` names the model in it. `names` gives symbols of the contract another name there, or, dotted, in
    another module of the zoo. `model_params` are keyword arguments of the model's factory. `zoo` is the
    folder from which model files import each other; by default the one that holds the file's own.
    """
    return _Loader(path, names or {}, Zoo(zoo or path.resolve().parent.parent, path)).load(
        symbol, model_params or {}
    )


class _Loader:
    def __init__(self, path: Path, names: Mapping[str, str], zoo: Zoo) -> None:
        for name in names:
            if name not in SHAPES:
                raise InputError(
                    f"{name!r} is no symbol of a model module", where=str(path), remedy=nearest(name, SHAPES)
                )
        self._path, self._names, self._zoo = path, names, zoo
        self._module = vars(zoo.load(path))

    def load(self, symbol: str | None, params: Mapping[str, Any]) -> ModelModule:
        optimizer = self._required("optimizer")
        metrics = self._optional("eval_metrics_fn")
        processor = self._optional("prediction_outputs_processor")
        reader = self._optional("custom_data_reader")
        return ModelModule(
            path=self._path,
            feed=any_feed(self._feed(), self._path),
            loss=labels_first(self._required("loss"), f"{self._path}: loss"),
            create_model=self._model(symbol, params),
            create_optimizer=self._factory("optimizer", optimizer, keras.optimizers.Optimizer),
            create_metrics=self._metrics(metrics),
            create_callbacks=self._callbacks(),
            custom_data_reader=reader and self._factory("custom_data_reader", reader),
            create_prediction_outputs_processor=processor
            and self._factory("prediction_outputs_processor", processor),
        )

    def _model(self, symbol: str | None, params: Mapping[str, Any]) -> Callable[[], keras.Model]:
        name = symbol or self._model_name()
        if name not in self._module:
            raise self._missing("custom_model", name)
        found = self._module[name]
        if isinstance(found, keras.Model):
            if params:
                what = f"{name} is a ready model and takes no --model_params"
                raise InputError(
                    what, where=str(self._path), remedy="make it a function that returns the model"
                )
            return lambda: found
        if not callable(found):
            raise self._misshapen("custom_model", name, found)
        _check_params(found, params, f"{self._path}: {name}")
        return self._factory(name, functools.partial(found, **params), keras.Model)

    def _model_name(self) -> str:
        """The contract's name for the model, newer ones first; else the only model class of the module."""
        for name in ("custom_model", "CustomModel", "model"):
            if name in self._module:
                return name
        classes = [
            name
            for name, value in self._module.items()
            if inspect.isclass(value)
            and issubclass(value, keras.Model)
            and value.__module__ == self._module["__name__"]
        ]
        return classes[0] if len(classes) == 1 else "custom_model"

    def _feed(self) -> Callable[..., Any]:
        if "feed" in self._names or "feed" in self._module or "dataset_fn" not in self._module:
            return self._required("feed")
        return self._symbol("feed", "dataset_fn")

    def _metrics(self, found: Callable[..., Any] | None) -> Callable[[], Mapping[str, Any]]:
        def missing() -> Mapping[str, Any]:
            raise self._missing("eval_metrics_fn", self._names.get("eval_metrics_fn", "eval_metrics_fn"))

        if found is None:
            return missing
        required = [p for p in inspect.signature(found).parameters.values() if p.default is p.empty]
        if any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in required):
            raise self._misshapen("eval_metrics_fn", "eval_metrics_fn", found)
        return self._factory("eval_metrics_fn", found, Mapping)

    def _callbacks(self) -> Callable[[], list[keras.callbacks.Callback]]:
        found = self._optional("callbacks")
        schedule = self._module.get("learning_rate_scheduler")
        create = self._factory("callbacks", found, list) if found else list
        if callable(schedule):
            return lambda: [*create(), scheduler_callback(schedule)]
        return create

    def _required(self, symbol: str) -> Callable[..., Any]:
        found = self._optional(symbol)
        if found is None:
            raise self._missing(symbol, symbol)
        return found

    def _optional(self, symbol: str) -> Callable[..., Any] | None:
        name = self._names.get(symbol)
        default = _DEFAULT_NAMES.get(symbol, symbol)
        return self._symbol(symbol, name) if name or default in self._module else None

    def _symbol(self, symbol: str, name: str | None) -> Callable[..., Any]:
        """What is there under that name, here or in another module of the zoo."""
        name = name or _DEFAULT_NAMES.get(symbol, symbol)
        place, _, last = name.rpartition(".")
        space = vars(self._zoo.load(self._zoo.file_of(place, f"--{symbol}"))) if place else self._module
        if last not in space:
            raise self._missing(symbol, name, space)
        found = space[last]
        if not callable(found):
            raise self._misshapen(symbol, name, found)
        return found  # type: ignore[no-any-return]

    def _factory(self, symbol: str, create: Callable[..., Any], kind: Any = object) -> Callable[..., Any]:
        """`create`, with the zoo importable, its errors told as the user's, and what it returns checked."""

        def checked(*args: Any, **kwargs: Any) -> Any:
            with user_code(symbol), self._zoo.importable():
                made = create(*args, **kwargs)
            if not isinstance(made, kind):
                what = f"{symbol} must return a {kind.__name__}, not {type(made).__name__}"
                raise ElasticError(what, where=str(self._path))
            return made

        return checked

    def _missing(self, symbol: str, name: str, space: Mapping[str, Any] | None = None) -> InputError:
        there = [n for n, v in (space or self._module).items() if callable(v) and not n.startswith("_")]
        near = nearest(name, there) if there else "the module defines nothing"
        return InputError(
            f"no {name} here", where=str(self._path), remedy=f"{near}; needed: {SHAPES[symbol]}"
        )

    def _misshapen(self, symbol: str, name: str, found: object) -> InputError:
        shape = (
            f"{name}{inspect.signature(found)}" if inspect.isfunction(found) else f"{name} = {found!r:.40}"
        )
        return InputError(f"cannot use {shape}", where=str(self._path), remedy=f"it must be {SHAPES[symbol]}")


def _check_params(factory: Callable[..., Any], params: Mapping[str, Any], where: str) -> None:
    takes = inspect.signature(factory).parameters
    if any(p.kind is p.VAR_KEYWORD for p in takes.values()):
        return
    for name in params:
        if name not in takes:
            remedy = nearest(name, takes) if takes else "it takes none"
            raise InputError(f"takes no parameter {name!r}", where=where, remedy=remedy)
    lacking = [p.name for p in takes.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    for name in lacking:
        if name not in params:
            remedy = f"give --model_params={name}=..., or a default in the module"
            raise InputError(f"needs a value for {name!r}", where=where, remedy=remedy)
