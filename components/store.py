"""The store of Kubeflow Pipelines' artifacts, for steps whose pods read and write these themselves.

KFP's launcher, which brings artifacts to the step and takes them from it, reads where that store is and what
opens it from the cluster; a pod that the step has made knows of neither.
"""

from kfp import dsl, kubernetes

ENDPOINT = "http://minio-service.kubeflow:9000"
SECRET = "mlpipeline-minio-artifact"  # noqa: S105 - a name
KEYS = {"accesskey": "AWS_ACCESS_KEY_ID", "secretkey": "AWS_SECRET_ACCESS_KEY"}


def open_store(task: dsl.PipelineTask, *, endpoint: str = ENDPOINT, secret: str = SECRET) -> dsl.PipelineTask:
    """Let a step, and with it its pods, reach the store by S3; a stock installation's, unless told otherwise.

    The secret may be missing, but not where the server overlooks that word, as 2.14.3 does. `kfp.local` knows
    of no secrets but sets the endpoint, too: do not open the store for a task that reads from another there.
    """
    kubernetes.use_secret_as_env(task, secret_name=secret, secret_key_to_env=KEYS, optional=True)
    return task.set_env_variable("AWS_ENDPOINT_URL", endpoint)
