"""The tiny model, which cannot be saved."""

import tiny
from tiny import eval_metrics_fn, feed, loss, optimizer

__all__ = ["custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]


def custom_model():
    model = tiny.custom_model()

    def refuse(path):
        raise ValueError("a layer of mine cannot be saved")

    model.save = refuse
    return model
