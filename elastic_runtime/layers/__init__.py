"""What model modules may import: modes, callbacks, a base for prediction, and layers that Keras lacks."""

from elastic_runtime.layers.callbacks import LearningRateScheduler, MaxStepsStopping, SavedModelExporter
from elastic_runtime.layers.embedding import Embedding
from elastic_runtime.layers.mode import Mode
from elastic_runtime.layers.prediction import BasePredictionOutputsProcessor
from elastic_runtime.layers.preprocessing import ConcatenateWithOffset, LogRound, RoundIdentity, ToNumber

__all__ = [
    "BasePredictionOutputsProcessor",
    "ConcatenateWithOffset",
    "Embedding",
    "LearningRateScheduler",
    "LogRound",
    "MaxStepsStopping",
    "Mode",
    "RoundIdentity",
    "SavedModelExporter",
    "ToNumber",
]
