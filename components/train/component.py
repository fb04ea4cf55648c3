"""Train a model elastically. Generated from `JobSpec` by `make generate`; do not edit."""

from typing import NamedTuple

from kfp import dsl

from elastic_runtime.steps.options import check

from ..image import IMAGE
from ..step import step

_FOR_THE_PODS_TOO = [
    dsl.TaskConfigPassthrough(field=field, apply_to_task=True) for field in dsl.TaskConfigField
]


@step(cached=False, check=check)
@dsl.component(base_image=IMAGE, install_kfp_package=False, task_config_passthroughs=_FOR_THE_PODS_TOO)
def train(
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
    pods: dsl.Output[dsl.Markdown],
    task_config: dsl.TaskConfig,
    model_def: str,
    training_dataset: dsl.Input[dsl.Dataset] = None,
    training_split: str = "",
    validation_dataset: dsl.Input[dsl.Dataset] = None,
    validation_split: str = "",
    job_name: str = "",
    platform: str = "auto",
    run_dir: str = "",
    log_level: str = "INFO",
    envs: str = "",
    metrics_port: int = 0,
    model_zoo: str = "",
    model_params: str = "",
    feed: str = "feed",
    loss: str = "loss",
    optimizer: str = "optimizer",
    eval_metrics_fn: str = "eval_metrics_fn",
    callbacks: str = "callbacks",
    custom_data_reader: str = "custom_data_reader",
    training_data: str = "",
    validation_data: str = "",
    data_reader_params: str = "",
    minibatch_size: int = 64,
    num_minibatches_per_task: int = 8,
    records_per_task: int = 0,
    shuffle_shards: bool = True,
    seed: int = 0,
    distribution_strategy: str = "ParameterServerStrategy",
    num_epochs: int = 1,
    max_step: int = 0,
    use_async: bool = False,
    grads_to_wait: int = 0,
    sync_version_tolerance: int = 0,
    lr_staleness_modulation: bool = False,
    get_model_steps: int = 1,
    lr_scaling: str = "none",
    gradient_compression: str = "none",
    collective_timeout: float = 30.0,
    log_loss_steps: int = 100,
    evaluation_steps: int = 0,
    evaluation_start_delay_secs: float = 100.0,
    evaluation_throttle_secs: float = 0.0,
    checkpoint_steps: int = 0,
    checkpoint_dir: str = "",
    keep_checkpoint_max: int = 0,
    checkpoint_dir_for_init: str = "",
    output: str = "",
    num_workers: int = 2,
    min_workers: int = 1,
    num_ps_pods: int = 0,
    lease_timeout: float = 120.0,
    max_task_attempts: int = 3,
    relaunch_on_worker_failure: int = 1,
    orphan_timeout: float = 0,
    image_name: str = "",
    worker_image: str = "",
    ps_image: str = "",
    image_pull_policy: str = "Always",
    volume: str = "",
    node_selector: str = "",
    toleration: str = "",
    service_account: str = "",
    populate_env_names: str = "",
    worker_resource_request: str = "cpu=1,memory=4096Mi",
    worker_resource_limit: str = "",
    ps_resource_request: str = "cpu=1,memory=4096Mi",
    ps_resource_limit: str = "",
    ps_pod_priority: str = "",
    worker_pod_priority: str = "",
    restart_policy: str = "Never",
    cluster_spec: str = "",
    cluster_spec_json: str = "",
) -> NamedTuple("Trained", [("steps", int), ("best_metric", float)]):
    """Train a model on workers that come and go; the step is the job's master.

    What is set on the task the ordinary way (resources, variables, volumes, tolerations, node selector,
    affinity) is the step's, and that of workers and parameter servers if these are pods of their own. The
    step may be retried: it goes on with its job if these are, or if run_dir outlives the step's own pod.
    Otherwise it begins anew.

    Args:
        model: The finished model: `model.keras` and `saved_model`, and in its metadata how to load it.
        metrics: The last evaluation's figures, and what the job came to; written all along.
        report: Curves, pods, and what happened, as one page; written all along.
        pods: Every pod and what became of it; written all along.
        task_config: Filled by KFP with what was set on the task.
        training_dataset: The records to train on, instead of training_data.
        training_split: The part of training_dataset, if it was split.
        validation_dataset: The records to evaluate on, instead of validation_data.
        validation_split: The part of validation_dataset, if it was split; without that, of
            training_dataset.
        job_name: The job's name; it is part of its pods' names.
        platform: Where pods run: as processes on this machine, or on Kubernetes; auto: there if an image is
            named; one of auto, process, kubernetes.
        run_dir: Folder for all that the job writes; default: runs/<job_name>, on Kubernetes
            /elasticdl/runs/<job_name>.
        log_level: How much is logged; one of DEBUG, INFO, WARNING, ERROR, CRITICAL.
        envs: Environment of every pod: k1=v1,k2=v2.
        metrics_port: Port that serves Prometheus metrics; 0: none.
        model_zoo: Folder of model modules; default: this folder.
        model_def: The model: folder.file.symbol in the model zoo, or the path of a Python file, or of a
            folder that holds one of its own name.
        model_params: Keyword arguments of the model's function: a=1; b=two.
        feed: Name of the function that parses records.
        loss: Name of the loss function.
        optimizer: Name of the function that makes the optimizer.
        eval_metrics_fn: Name of the function that makes the metrics.
        callbacks: Name of the function that makes the callbacks.
        custom_data_reader: Name of the function that makes the module's own data reader.
        training_data: Folder, file or URI of the records to train on.
        validation_data: Folder, file or URI of the records to evaluate on.
        data_reader_params: Keyword arguments of the data reader: k=v; k=v.
        minibatch_size: Records in a minibatch.
        num_minibatches_per_task: Minibatches in a shard, the unit of work that a worker is given.
        records_per_task: Records in a shard, said directly; default: minibatch_size x
            num_minibatches_per_task.
        shuffle_shards: Hand the shards out in random order.
        seed: Seed of everything random.
        distribution_strategy: How workers share the model; one of ParameterServerStrategy, Local,
            AllreduceStrategy.
        num_epochs: Times over the training data; 0 or less: without end.
        max_step: Stop at this model version; 0: at the end of the data.
        use_async: Apply each gradient as it comes.
        grads_to_wait: Gradients that make one step, in sync mode; what comes later than that is computed
            again; default: num_workers.
        sync_version_tolerance: Versions by which a gradient may be late, in sync mode.
        lr_staleness_modulation: Divide the learning rate by a gradient's staleness, in async mode.
        get_model_steps: Minibatches between two pulls of the model, in async mode.
        lr_scaling: How the learning rate follows the number of workers, with AllReduce; one of none,
            linear, sqrt.
        gradient_compression: How gradients travel, with AllReduce; one of none, fp16.
        collective_timeout: Seconds after which a silent worker is given up by the others.
        log_loss_steps: Steps between two loss lines in a worker's log.
        evaluation_steps: Evaluate every so many model versions; 0: not by steps.
        evaluation_start_delay_secs: Seconds before the first evaluation by time.
        evaluation_throttle_secs: Seconds between two evaluations by time; 0: not by time.
        checkpoint_steps: Save every so many model versions; 0: none while training.
        checkpoint_dir: Folder for checkpoints; default: checkpoints in run_dir.
        keep_checkpoint_max: Newest checkpoints to keep; 0: all.
        checkpoint_dir_for_init: Checkpoint to begin from, a version-N folder.
        output: Folder or URI for the finished model; on this machine model in run_dir, unless said.
        num_workers: Workers wanted, and the most there will be.
        min_workers: Workers without which the job waits.
        num_ps_pods: Parameter servers; default: 1 with ParameterServerStrategy, otherwise 0.
        lease_timeout: Seconds without progress after which a worker loses its shard.
        max_task_attempts: Failures of one shard that fail the job.
        relaunch_on_worker_failure: Replacements of a worker that failed by itself; preemption is not
            counted.
        orphan_timeout: Seconds that workers and parameter servers wait for a vanished master's successor;
            default: 30 as processes, 300 on Kubernetes.
        image_name: Image of all pods.
        worker_image: Image of workers and parameter servers; default: image_name.
        ps_image: Image of parameter servers, which need no TensorFlow; default: worker_image.
        image_pull_policy: When nodes pull the image; one of Always, IfNotPresent, Never.
        volume: Mounts of every pod: claim_name=c,mount_path=/a;host_path=/b,mount_path=/b; also sub_path,
            type, volume_name.
        node_selector: Labels of the nodes that pods may run on: pool=train,zone=a.
        toleration: Taints that pods tolerate:
            key=pool,value=train,effect=NoSchedule;key=gpu,operator=Exists; also seconds.
        service_account: Service account of the pods; the master needs its rights; default: the master's,
            which is the namespace's default unless a pipeline's step is the master.
        populate_env_names: Regular expression for the master's variables that its children get too.
        worker_resource_request: What a worker asks for.
        worker_resource_limit: What a worker gets at most; none: no limit; default: worker_resource_request.
        ps_resource_request: What a parameter server asks for.
        ps_resource_limit: What a parameter server gets at most; none: no limit; default:
            ps_resource_request.
        ps_pod_priority: Priority class of parameter servers; default: the one given for the master,
            otherwise that of the first worker, but not low.
        worker_pod_priority: Priority class of workers, or the fraction of them that is high, the rest low.
        restart_policy: Restart policy of the pods; anything else is taken as Never: the job replaces its
            pods itself; one of Never, OnFailure, Always.
        cluster_spec: Python file whose cluster changes pods and services before they are made.
        cluster_spec_json: The same as JSON.

    Returns:
        steps: How many updates the model had.
        best_metric: The best value of the first metric over all evaluations; without any, the last loss. Of a
            model that has diverged it is the worst there is: 1.8e308 of what should fall, else -1.8e308.
    """
    given = dict(locals())
    from elastic_runtime.steps import carry_out
    from elastic_runtime.steps.train import train

    return carry_out(train, given)
