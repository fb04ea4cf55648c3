"""ElasticDL's steps for Kubeflow Pipelines.

Installed, this folder is the package `elasticdl_components`, because a `components` of their own is what many
users have; in a checkout both names work.
"""

from .build_image.component import build_image
from .clean_up.component import clean_up
from .convert.component import convert
from .evaluate.component import evaluate
from .predict.component import predict
from .train.component import train

__all__ = ["build_image", "clean_up", "convert", "evaluate", "predict", "train"]
