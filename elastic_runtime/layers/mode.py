"""What a batch is for: the second argument of a model's `feed`."""

from __future__ import annotations


class Mode:
    """The modes are plain strings, so that a model may compare with either the name or the text."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    PREDICTION = "prediction"
