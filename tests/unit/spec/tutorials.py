"""The commands of the tutorials as their readers type them, without the program's name."""

import shlex

_DATA = "--training_data=/data/mnist/train --validation_data=/data/mnist/test"
_SIZES = """
--master_resource_request="cpu=0.2,memory=1024Mi" --master_resource_limit="cpu=1,memory=2048Mi"
--worker_resource_request="cpu=0.4,memory=1024Mi" --worker_resource_limit="cpu=1,memory=2048Mi"
"""
LOCAL_PS = f"""
--image_name=elasticdl:mnist_ps --model_zoo=model_zoo --model_def=mnist.mnist_functional_api.custom_model
{_DATA} --num_epochs=2 {_SIZES}
--ps_resource_request="cpu=0.2,memory=1024Mi" --ps_resource_limit="cpu=1,memory=2048Mi"
--minibatch_size=64 --num_minibatches_per_task=2 --num_ps_pods=1 --num_workers=1 --evaluation_steps=50
--job_name=test-mnist --image_pull_policy=Never --volume="host_path=/data,mount_path=/data"
--distribution_strategy=ParameterServerStrategy
"""
LOCAL_ALLREDUCE = f"""
--image_name=elasticdl:mnist_allreduce --model_zoo=model_zoo
--model_def=mnist.mnist_functional_api.custom_model --training_data=/data/mnist/train --num_epochs=1 {_SIZES}
--minibatch_size=64 --num_minibatches_per_task=2 --num_workers=2
--job_name=test-mnist-allreduce --image_pull_policy=Never
--volume="host_path=/data,mount_path=/data" --distribution_strategy=AllreduceStrategy
"""
_CLOUD = """
--model_def=elasticdl/python/examples/mnist_subclass --training_data_dir=/data/mnist_nfs/mnist/train
--evaluation_data_dir=/data/mnist_nfs/mnist/test --num_epochs=1 --minibatch_size=10 --records_per_task=100
--checkpoint_steps=2 --grads_to_wait=2
--volume="volume_name=data-volume,mount_path=/data,claim_name=fileserver-claim"
--log_level=INFO --docker_image_prefix=gcr.io/my-project
"""
_CLOUD_SIZES = """
--master_resource_request="cpu=1,memory=1024Mi" --master_resource_limit="cpu=1,memory=1024Mi"
--worker_resource_request="cpu=3,memory=4096Mi" --worker_resource_limit="cpu=3,memory=4096Mi"
--master_pod_priority=high-priority
"""
CLOUD_HELLO = f"{_CLOUD} --job_name=hello-world --num_workers=2"
CLOUD_FAULT = f"{_CLOUD} --job_name=fault-tolerance --num_workers=2"
CLOUD_LOW = (
    f"{_CLOUD} {_CLOUD_SIZES} --job_name=low-prio-job --num_workers=2 --worker_pod_priority=low-priority"
)
CLOUD_HIGH = (
    f"{_CLOUD} {_CLOUD_SIZES} --job_name=high-prio-job --num_workers=1 --worker_pod_priority=high-priority"
)
_ON_PREM = f"""
--model_def=mnist_functional_api.mnist_functional_api.custom_model {_DATA} --num_epochs=2
--master_resource_request="cpu=1,memory=2048Mi,ephemeral-storage=5000Mi"
--worker_resource_request="cpu=1,memory=2048Mi,ephemeral-storage=5000Mi" --minibatch_size=64
--num_minibatches_per_task=2 --num_workers=2 --checkpoint_steps=10 --grads_to_wait=2 --job_name=test-mnist
--log_level=INFO --image_pull_policy=Always --namespace=kubemaker --cluster_spec spec.py
"""
ON_PREM_BUILT = f"""
{_ON_PREM} --image_base=elasticdl:ci --docker_image_prefix=reg.docker.com/user/ --model_zoo=./model_zoo
"""
ON_PREM_READY = f"{_ON_PREM} --image_base=reg.docker.com/user/elasticdl:mnist --model_zoo=/model_zoo"

_MODEL_FILE = "--model_file=elasticdl/python/examples/mnist_functional_api.py"
_BY_HAND = f"""
{_MODEL_FILE} --job_name=test --training_data_dir=/data/mnist/train --evaluation_data_dir=/data/mnist/test
--records_per_task=100 --num_epochs=2 --grads_to_wait=2 --minibatch_size=10 --log_level=INFO
"""
DEVELOPER_MASTER = f"{_BY_HAND} --checkpoint_steps=2"
DEVELOPER_WORKER = f"--worker_id=1 {_MODEL_FILE} --master_addr=localhost:50001 --log_level=INFO"
README_MASTER = f"{_BY_HAND} --codec_type=tf_example"
README_WORKER = f"{DEVELOPER_WORKER} --codec_type=tf_example"
DEMO_MANIFEST = """
--num_workers=2 --worker_image=elasticdl:dev --job_name=test-mnist --records_per_task=100 --num_epochs=1
--grads_to_wait=2 --minibatch_size=64 --codec_type=tf_example --worker_cpu_request=100m
--worker_memory_request=100Mi --model_file=/elasticdl/python/examples/mnist_functional_api.py
--training_data_dir=/elasticdl/python/data/mnist/train
"""

COMMANDS = {
    "local, PS": ("train", LOCAL_PS),
    "local, AllReduce": ("train", LOCAL_ALLREDUCE),
    "cloud, hello-world": ("train", CLOUD_HELLO),
    "cloud, fault-tolerance": ("train", CLOUD_FAULT),
    "cloud, low-prio-job": ("train", CLOUD_LOW),
    "cloud, high-prio-job": ("train", CLOUD_HIGH),
    "on-prem A": ("train", ON_PREM_BUILT),
    "on-prem B": ("train", ON_PREM_READY),
    "developer master": ("master", DEVELOPER_MASTER),
    "developer worker": ("worker", DEVELOPER_WORKER),
    "docker README master": ("master", README_MASTER),
    "docker README worker": ("worker", README_WORKER),
    "demo manifest": ("master", DEMO_MANIFEST),
}


def typed(text):
    """The arguments as a shell would pass them."""
    return shlex.split(text)
