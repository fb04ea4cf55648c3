"""The tiny model with a callback that has seen enough in the midst of a shard."""

from tiny import custom_model, eval_metrics_fn, feed, loss, optimizer

from elastic_runtime.layers.callbacks import MaxStepsStopping

__all__ = ["callbacks", "custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]


def callbacks():
    return [MaxStepsStopping(10)]
