"""Where a job runs and with how much: the groups of options that depend on machine or cluster."""

from __future__ import annotations

from typing import Literal

from elastic_runtime.spec.flags import COMMANDS, JOB, VERBS, Command, Group, flag
from elastic_runtime.spec.values import (
    Address,
    Envs,
    Image,
    JobName,
    Limit,
    Namespace,
    NodeSelector,
    Number,
    Pattern,
    PriorityClass,
    Resources,
    Secrets,
    ServiceAccount,
    Switch,
    Text,
    Tolerations,
    Volumes,
    Whole,
    WorkerPriorityText,
)

_MOST_PODS = 99_999  # a longer number would not fit into a pod's name
_MEMBERS: tuple[Command, ...] = ("worker", "ps")


class Job(Group):
    """The job."""

    job_name: JobName = flag("", "the job's name; it is part of its pods' names", required=JOB)
    platform: Literal["auto", "process", "kubernetes"] = flag(
        "auto",
        "where pods run: as processes on this machine, or on Kubernetes; auto: there if an image is named",
        takes=JOB,
    )
    run_dir: Text = flag(
        "",
        "folder for all that the job writes",
        takes=JOB,
        shown="runs/<job_name>, on Kubernetes /elasticdl/runs/<job_name>",
    )
    restart: Switch = flag(False, "begin anew instead of going on where this job was left", takes=JOB)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = flag("INFO", "how much is logged")
    envs: Envs = flag("", "environment of every pod: `k1=v1,k2=v2`", takes=JOB)
    metrics_port: Whole = flag(0, "port that serves Prometheus metrics; 0: none", takes=JOB, ge=0, le=65535)


class Elasticity(Group):
    """Workers and parameter servers."""

    num_workers: Whole = flag(
        2,
        "workers wanted, and the most there will be",
        takes=JOB,
        ge=0,
        le=_MOST_PODS,
        by_command={"master": 0},
    )
    min_workers: Whole = flag(1, "workers without which the job waits", takes=JOB, ge=0)
    num_ps_pods: Whole | None = flag(
        None,
        "parameter servers",
        takes=(*JOB, "ps"),
        ge=0,
        le=_MOST_PODS,
        identity=True,
        shown="1 with ParameterServerStrategy, otherwise 0",
    )
    lease_timeout: Number = flag(
        120.0, "seconds without progress after which a worker loses its shard", takes=JOB, gt=0
    )
    max_task_attempts: Whole = flag(3, "failures of one shard that fail the job", takes=JOB, ge=1)
    relaunch_on_worker_failure: Whole = flag(
        1, "replacements of a worker that failed by itself; preemption is not counted", takes=JOB, ge=0
    )
    orphan_timeout: Number | None = flag(
        None,
        "seconds that workers and parameter servers wait for a vanished master's successor",
        gt=0,
        shown="30 as processes, 300 on Kubernetes",
    )


class Kubernetes(Group):
    """On Kubernetes."""

    image_name: Image = flag("", "image of all pods", takes=JOB)
    worker_image: Image = flag("", "image of workers and parameter servers", takes=JOB, shown="image_name")
    ps_image: Image = flag(
        "", "image of parameter servers, which need no TensorFlow", takes=JOB, shown="worker_image"
    )
    base_image: Image = flag("", "image to build the job's image on", takes=JOB)
    docker_image_repository: Image = flag("", "where to push the image built for this job", takes=JOB)
    extra_pypi_index: Text = flag("", "additional package index for building the image", takes=JOB)
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = flag(
        "Always", "when nodes pull the image", takes=JOB
    )
    image_pull_secret: Secrets = flag(
        "",
        "secrets that nodes pull the images with: `a,b`",
        takes=JOB,
        shown="those of the service account",
    )
    namespace: Namespace = flag("default", "namespace of pods and services", takes=JOB)
    volume: Volumes = flag(
        "",
        "mounts of every pod: `claim_name=c,mount_path=/a;host_path=/b,mount_path=/b`; also sub_path, type, "
        "volume_name",
        takes=JOB,
    )
    node_selector: NodeSelector = flag(
        "", "labels of the nodes that pods may run on: `pool=train,zone=a`", takes=JOB
    )
    toleration: Tolerations = flag(
        "",
        "taints that pods tolerate: `key=pool,value=train,effect=NoSchedule;key=gpu,operator=Exists`; also "
        "seconds",
        takes=JOB,
    )
    service_account: ServiceAccount = flag(
        "",
        "service account of the pods; the master needs its rights",
        takes=JOB,
        shown="the master's, which is the namespace's default unless a pipeline's step is the master",
    )
    populate_env_names: Pattern = flag(
        "", "regular expression for the master's variables that its children get too", takes=JOB
    )
    master_resource_request: Resources = flag(
        "cpu=0.1,memory=1024Mi", "what the master asks for: `cpu=0.5,memory=1Gi,gpu=1`", takes=JOB
    )
    master_resource_limit: Limit = flag(
        "", "what the master gets at most; `none`: no limit", takes=JOB, shown="master_resource_request"
    )
    worker_resource_request: Resources = flag("cpu=1,memory=4096Mi", "what a worker asks for", takes=JOB)
    worker_resource_limit: Limit = flag(
        "", "what a worker gets at most; `none`: no limit", takes=JOB, shown="worker_resource_request"
    )
    ps_resource_request: Resources = flag(
        "cpu=1,memory=4096Mi", "what a parameter server asks for", takes=JOB
    )
    ps_resource_limit: Limit = flag(
        "", "what a parameter server gets at most; `none`: no limit", takes=JOB, shown="ps_resource_request"
    )
    master_pod_priority: PriorityClass = flag(
        "", "priority class of the master", takes=JOB, shown="that of the first worker, but not `low`"
    )
    ps_pod_priority: PriorityClass = flag(
        "",
        "priority class of parameter servers",
        takes=JOB,
        shown="the one given for the master, otherwise that of the first worker, but not `low`",
    )
    worker_pod_priority: WorkerPriorityText = flag(
        "", "priority class of workers, or the fraction of them that is `high`, the rest `low`", takes=JOB
    )
    restart_policy: Literal["Never", "OnFailure", "Always"] = flag(
        "Never",
        "restart policy of the pods; anything else is taken as `Never`: the job replaces its pods itself",
        takes=JOB,
    )
    cluster_spec: Text = flag(
        "", "Python file whose `cluster` changes pods and services before they are made", takes=JOB
    )
    cluster_spec_json: Text = flag("", "the same as JSON", takes=JOB)
    force_use_kube_config_file: Switch = flag(
        False, "use the kubeconfig file even inside a cluster", takes=JOB
    )
    yaml: Text = flag("", "write the job's manifests to this file instead of submitting it", takes=VERBS)
    dry_run: Switch = flag(False, "print the objects that begin the job instead of making them", takes=VERBS)
    dry_run_format: Literal["yaml", "json"] = flag(
        "yaml", "how --dry_run prints them; `-o` for short", takes=VERBS
    )
    detach: Switch = flag(False, "return once the master runs instead of following its log", takes=VERBS)


class Process(Group):
    """One process, by hand or by the master."""

    port: Whole = flag(
        0,
        "port to listen on; 0: any that is free",
        takes=tuple(command for command in COMMANDS if command != "worker"),
        ge=0,
        le=65535,
        by_command={"master": 50001},
    )
    master_addr: Address = flag(
        "", "where the master listens: host:port, or @file that holds it", takes=_MEMBERS, required=_MEMBERS
    )
    pod_name: Text = flag("", "the pod this process is", takes=_MEMBERS, shown="<role>-<id>")
    worker_id: Whole = flag(0, "which worker this is", takes=("worker",), required=("worker",), ge=0)
    host: Text = flag(
        "127.0.0.1", "where to listen; anything but loopback needs the job's token", takes=("ps",)
    )
    advertise_host: Text = flag("", "where others reach it", takes=("ps",), shown="host")
    gradient_timeout: Number = flag(
        60.0, "seconds that a gradient waits for the others of its step, in sync mode", takes=("ps",), gt=0
    )
    ps_id: Whole = flag(0, "which parameter server this is", takes=("ps",), required=("ps",), ge=0)
