"""The MNIST model under the name of the on-premises tutorial."""

from mnist.mnist_functional_api import custom_model, eval_metrics_fn, feed, loss, optimizer

__all__ = ["custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]
