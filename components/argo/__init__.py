"""ElasticDL's steps for Argo Workflows: templates for Hera, and the manifests of `manifests/argo/`.

A template is called within a `DAG` or `Steps`, with the inputs of its component by name:

    from elasticdl_components import argo

    with Workflow(generate_name="mnist-", entrypoint="mnist") as workflow, DAG(name="mnist"):
        data = argo.convert(format="mnist")
        argo.train(training_dataset=data.get_artifact("dataset"), model_def="mnist.mnist_functional_api", ...)
"""

from .. import build_image as _build_image
from .. import clean_up as _clean_up
from .. import convert as _convert
from .. import evaluate as _evaluate
from .. import predict as _predict
from .. import train as _train
from ..image import IMAGE
from . import handed as _handed  # noqa: F401 - Hera calls it, and what follows
from . import one_job_each as _one_job_each  # noqa: F401
from .template import StepTemplate, template

__all__ = ["TEMPLATES", "StepTemplate", "build_image", "clean_up", "convert", "evaluate", "predict", "train"]
_OF_THE_JOB = "elasticdl"
"""The service account of steps that make or remove pods: manifests/elasticdl-argo-rbac.yaml."""
_JOB = {"job_name": "{{workflow.name}}"}

build_image = template(_build_image, logins=True)
convert = template(_convert)
train = template(_train, defaults=_JOB | {"image_name": IMAGE}, account=_OF_THE_JOB, again_for_outputs=False)
evaluate = template(_evaluate)
predict = template(_predict)
clean_up = template(_clean_up, defaults=_JOB, account=_OF_THE_JOB)

TEMPLATES = (build_image, convert, train, evaluate, predict, clean_up)
