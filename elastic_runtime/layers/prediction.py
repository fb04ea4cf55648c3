"""What a model module does with the model's outputs when it predicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class BasePredictionOutputsProcessor(ABC):
    """Base of a module's `PredictionOutputsProcessor`, which each worker makes one of, without arguments."""

    @abstractmethod
    def process(self, predictions: Any, worker_id: int) -> None:
        """Do something with the outputs of one batch, write them away for example."""
