"""Lets model files written for the old ElasticDL import what they always did.

`with old_imports():` makes modules such as `elasticdl.python.common.constants` importable for as long as it
lasts; their symbols are this program's own. The table names places as text and imports them only when asked
for, so that a model which needs no reader does not load one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_LAYERS, _KERAS = "elastic_runtime.layers", "keras.layers"
_PREPROCESSING = {
    "ConcatenateWithOffset": ("concatenate_with_offset", _LAYERS),
    "Discretization": ("discretization", _KERAS),
    "Hashing": ("hashing", _KERAS),
    "LogRound": ("log_round", _LAYERS),
    "RoundIdentity": ("round_identity", _LAYERS),
    "ToNumber": ("to_number", _LAYERS),
}

OLD_IMPORTS: dict[str, dict[str, str]] = {
    "elasticdl.python.common.constants": {"Mode": _LAYERS},
    "elasticdl.python.elasticdl.callbacks": {
        "LearningRateScheduler": _LAYERS,
        "MaxStepsStopping": _LAYERS,
        "SavedModelExporter": _LAYERS,
    },
    "elasticdl.python.elasticdl.layers.embedding": {"Embedding": _LAYERS},
    "elasticdl.python.data.reader.recordio_reader": {
        "RecordIODataReader": "elastic_runtime.data.readers.old"
    },
    "elasticdl.python.worker.prediction_outputs_processor": {"BasePredictionOutputsProcessor": _LAYERS},
    "elasticdl_preprocessing.layers": {name: place for name, (_, place) in _PREPROCESSING.items()},
} | {
    f"elasticdl_preprocessing.layers.{file}": {name: place} for name, (file, place) in _PREPROCESSING.items()
}


class _OldModule(ModuleType):
    """A module under an old name, whose symbols are fetched from where they are now."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "Stands for a module of the old ElasticDL.")
        self.__path__: list[str] = []

    def __getattr__(self, symbol: str) -> Any:
        place = OLD_IMPORTS.get(self.__name__, {}).get(symbol)
        if place is None:
            raise AttributeError(symbol)
        return getattr(importlib.import_module(place), symbol)


@contextmanager
def old_imports() -> Iterator[None]:
    """Inside, the old modules can be imported; what was there under their names comes back afterwards."""
    names = {name.rsplit(".", count)[0] for name in OLD_IMPORTS for count in range(name.count(".") + 1)}
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    modules = {name: _OldModule(name) for name in names}
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
