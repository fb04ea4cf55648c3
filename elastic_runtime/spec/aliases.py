"""The older names: every flag that a tutorial or an older version had and we do not.

It is renamed, translated, dropped with the reason, or refused with the replacement; never ignored. Each says
so once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from elastic_runtime.errors import InputError

RENAMED = {
    "training_data_dir": "training_data",
    "evaluation_data_dir": "validation_data",
    "prediction_data_dir": "prediction_data",
    "model_file": "model_def",
    "init_from_checkpoint": "checkpoint_dir_for_init",
    "checkpoint_filename_for_init": "checkpoint_dir_for_init",
    "input_fn": "feed",
    "dataset_fn": "feed",
    "docker_image_prefix": "docker_image_repository",
    "num_ps": "num_ps_pods",
}

_BUILT_IN = "is always there"
_ENVIRONMENT = "the Docker client reads DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH"

GONE = {
    "need_elasticdl_job_service": f"the job service {_BUILT_IN}",
    "need_task_manager": f"the task manager {_BUILT_IN}",
    "need_pod_manager": f"the pod manager {_BUILT_IN}",
    "task_fault_tolerance": f"fault tolerance {_BUILT_IN}",
    "use_go_ps": "there is one kind of parameter server",
    "relaunch_timeout_worker": "a worker without progress loses its shard after --lease_timeout",
    "job_type": "a worker learns from the master what to do",
    "ps_addrs": "a worker learns from the master where the parameter servers are",
    "log_file_path": "a pod's log is in the folder logs of --run_dir; on Kubernetes, `elasticdl job logs`",
    "tensorboard_log_dir": "losses and metrics are drawn in report.html of --run_dir",
    "push_image": "an image is pushed when --docker_image_repository is given",
    "docker_base_url": _ENVIRONMENT,
    "docker_tlscert": _ENVIRONMENT,
    "docker_tlskey": _ENVIRONMENT,
    "embedding_service_endpoint": "embeddings are kept by the parameter servers",
    "collective_communicator_service_name": "AllReduce workers find each other through the master",
}

REFUSED = {
    "job_command": ("only model modules are run", "write the training loop as custom_model, loss and feed"),
    "custom_training_loop": ("only model modules are run", "write it as custom_model, loss and feed"),
    "need_tf_config": ("TF_CONFIG is not provided", "choose a --distribution_strategy instead"),
    "num_evaluator": ("there are no evaluator pods", "workers evaluate: give --validation_data"),
    "opt_type": ("the optimizer is the model's", "write it in the model module; --optimizer names it"),
    "opt_args": ("the optimizer is the model's", "write it in the model module; --optimizer names it"),
}

_OFF = ("", "false", "no", "f", "n", "0")

Given = Mapping[str, str]
Translation = Callable[[Given], tuple[dict[str, str], str]]


@dataclass(frozen=True, slots=True)
class Translated:
    """The options under their present names, and what to say about those that had another."""

    values: dict[str, str]
    notices: list[str]


def translate(given: Given) -> Translated:
    """`given`, older names mapped to ours. A name that stays is passed on, known or not."""
    result = Translated({}, [])
    for name, value in given.items():
        if name in REFUSED and value.lower() not in _OFF:
            what, remedy = REFUSED[name]
            raise InputError(what, where=f"--{name}", remedy=remedy)
        if name in GONE or name in REFUSED:
            result.notices.append(f"--{name} does nothing: {GONE.get(name) or 'there is no such thing'}")
        elif name in RENAMED:
            _put(result, name, {RENAMED[name]: value}, f"--{name} is now called --{RENAMED[name]}", given)
        elif name in TRANSLATED:
            _put(result, name, *TRANSLATED[name][1](given), given)
        else:
            result.values[name] = value
    return result


def _put(result: Translated, older: str, values: dict[str, str], notice: str, given: Given) -> None:
    for name, value in values.items():
        other = given.get(name, result.values.get(name, value))
        if other != value:
            raise InputError(
                f"--{older} means --{name}={value}, but it is {other} already", remedy="leave one out"
            )
        result.values[name] = value
    if notice not in result.notices:
        result.notices.append(notice)


def _codec_type(given: Given) -> tuple[dict[str, str], str]:
    if given["codec_type"] != "tf_example":
        raise InputError(
            f"got {given['codec_type']!r}; records of bare column buffers are no longer read",
            where="--codec_type",
            remedy="convert them with `elasticdl data convert`, or write a feed that parses them",
        )
    return {}, "--codec_type=tf_example does nothing: the model's feed parses the records"


def _image_base(given: Given) -> tuple[dict[str, str], str]:
    """An image to build on, except where the tutorial means one that holds the model already."""
    image, zoo = given["image_base"], given.get("model_zoo", "")
    builds = given.get("docker_image_prefix") or given.get("docker_image_repository")
    if not builds and os.path.isabs(zoo) and not os.path.exists(zoo):
        notice = f"--image_base is taken as --image_name: {zoo} is not here, so it is in {image}"
        return {"image_name": image}, notice
    return {"base_image": image}, "--image_base is now called --base_image: the job's image is built on it"


def _worker_resources(kind: str) -> Translation:
    flags = (f"worker_cpu_{kind}", f"worker_memory_{kind}")

    def translate(given: Given) -> tuple[dict[str, str], str]:
        cpu, memory = given.get(flags[0], "1000m"), given.get(flags[1], "4096Mi")
        resources = f"cpu={cpu},memory={memory}"
        name = f"worker_resource_{kind}"
        return {name: resources}, f"--{flags[0]} and --{flags[1]} are now --{name}={resources}"

    return translate


def _volume(given: Given) -> tuple[dict[str, str], str]:
    if not given.get("volume_name") or not given.get("mount_path"):
        raise InputError(
            "--volume_name and --mount_path go together", remedy="--volume=claim_name=c,mount_path=/data"
        )
    volume = (
        f"claim_name=fileserver-claim,mount_path={given['mount_path']},volume_name={given['volume_name']}"
    )
    return {"volume": volume}, f"--volume_name and --mount_path are now --volume={volume}"


def _aux_params(given: Given) -> tuple[dict[str, str], str]:
    values = {"": False, "disable_relaunch=true": True, "disable_relaunch=false": False}
    text = given["aux_params"].strip().lower()
    if text not in values:
        raise InputError(
            f"got {given['aux_params']!r}", where="--aux_params", remedy="give disable_relaunch=True"
        )
    if not values[text]:
        return {}, f"--aux_params={text} does nothing: workers are relaunched anyway"
    notice = "--aux_params=disable_relaunch is now --relaunch_on_worker_failure=0"
    return {"relaunch_on_worker_failure": "0"}, notice


TRANSLATED: dict[str, tuple[str, Translation]] = {
    "codec_type": ("`tf_example` does nothing, `bytes` is refused: `--feed` parses records", _codec_type),
    "image_base": ("`--base_image`, or `--image_name` if the image holds the model already", _image_base),
    "worker_cpu_request": ("`--worker_resource_request`", _worker_resources("request")),
    "worker_memory_request": ("`--worker_resource_request`", _worker_resources("request")),
    "worker_cpu_limit": ("`--worker_resource_limit`", _worker_resources("limit")),
    "worker_memory_limit": ("`--worker_resource_limit`", _worker_resources("limit")),
    "volume_name": ("`--volume`", _volume),
    "mount_path": ("`--volume`", _volume),
    "aux_params": ("`--relaunch_on_worker_failure=0` for `disable_relaunch=True`", _aux_params),
}
