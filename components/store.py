"""The store of Kubeflow Pipelines' artifacts, for steps whose pods read and write these themselves.

KFP's launcher, which brings artifacts to the step and takes them from it, reads where that store is and what
opens it from the cluster; a pod that the step has made knows of neither. To an installation that keeps its
artifacts under `s3://` or `gs://` this is nothing: pods have what opens those by themselves, or it is set on
the task.
"""

from kfp import dsl, kubernetes

ENDPOINT = "http://minio-service.kubeflow:9000"
SECRET = "mlpipeline-minio-artifact"  # noqa: S105 - a name
KEYS = {"accesskey": "FSSPEC_MINIO_KEY", "secretkey": "FSSPEC_MINIO_SECRET"}
OF_S3 = {"accesskey": "AWS_ACCESS_KEY_ID", "secretkey": "AWS_SECRET_ACCESS_KEY"}


def open_store(task: dsl.PipelineTask, *, endpoint: str = "", secret: str = SECRET) -> dsl.PipelineTask:
    """Let a step, and with it its pods, reach what is under `minio://`: in a stock installation's store.

    An `endpoint` that is named is that of `s3://`, too. The secret may be missing, but not where the server
    overlooks that word, as 2.14.3 does. `kfp.local` knows of no secrets, and sets the endpoint.
    """
    for keys in (KEYS, OF_S3) if endpoint else (KEYS,):
        kubernetes.use_secret_as_env(task, secret_name=secret, secret_key_to_env=keys, optional=True)
    if endpoint:
        task.set_env_variable("AWS_ENDPOINT_URL", endpoint)
    return task.set_env_variable("FSSPEC_MINIO_ENDPOINT_URL", endpoint or ENDPOINT)
