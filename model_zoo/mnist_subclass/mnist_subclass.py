"""The subclassed MNIST model under the name of the cloud tutorial."""

from mnist.mnist_subclass import CustomModel, eval_metrics_fn, feed, loss, optimizer

__all__ = ["CustomModel", "eval_metrics_fn", "feed", "loss", "optimizer"]
