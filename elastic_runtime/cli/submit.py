"""`elasticdl train` with an image: from the specification to a job in the cluster, and to its end.

The image is built and pushed if that is asked for; then the objects are made, or only shown. Who follows the
job sees what its master's pod waits for, then the master's own log, and gets its exit code; who stops
following does not stop the job.
"""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from textwrap import indent

import click

from elastic_runtime.image.choice import image_for
from elastic_runtime.master.in_cluster import pods_to_come
from elastic_runtime.observe import figures
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.manifest import to_json, to_yaml
from elastic_runtime.platform.kubernetes.objects import PORTS, Blueprint
from elastic_runtime.platform.kubernetes.submission import Submission, by_hand
from elastic_runtime.platform.pods import Role, pod_name
from elastic_runtime.spec.entry import INTERRUPTED, say
from elastic_runtime.spec.job import JobSpec


def submit(asked: JobSpec) -> int:
    """Bring the job into the cluster; the job's exit code, or 0 once it runs if nobody is to follow it."""
    only_show = asked.dry_run or bool(asked.yaml)
    spec = _with_image(asked, build=not only_show)
    blueprint = Blueprint.of(spec)
    if only_show:
        return _show(asked, blueprint)
    api = Api.connect(spec.namespace, force_kube_config_file=spec.force_use_kube_config_file)
    submission = Submission(api, blueprint, restart=asked.restart)
    if not submission.submit():
        say(f"job {spec.job_name} has succeeded already (--restart begins it anew)")
        return 0
    job, master = spec.job_name, pod_name(spec.job_name, Role.MASTER)
    click.echo(f"ElasticDL job {job} was successfully submitted. The master pod is: {master}.")
    try:
        if asked.detach:
            submission.await_running(_echo)
            return 0
        return submission.follow(_echo)
    except KeyboardInterrupt:
        say(f"the job goes on; `elasticdl job stop {job} --namespace={spec.namespace}` ends it")
        return INTERRUPTED
    finally:
        api.close()


def _with_image(asked: JobSpec, *, build: bool) -> JobSpec:
    """The job as its pods see it; whoever is their master next goes on with it, however it was begun."""
    changes: dict[str, object] = {
        "restart": False,
        "base_image": "",
        "docker_image_repository": "",
        "extra_pypi_index": "",
        "yaml": "",
        "dry_run": False,
        "dry_run_format": "yaml",
        "detach": False,
        "port": PORTS[Role.MASTER],
    }
    built = image_for(asked, build=build)
    say(built.said)
    changes |= {"image_name": built.image, "model_zoo": built.model_zoo, "model_def": built.model_def}
    return asked.model_copy(update=changes)


def _show(asked: JobSpec, blueprint: Blueprint) -> int:
    objects = by_hand(blueprint)
    text = to_json(objects) if asked.dry_run_format == "json" else _commented(blueprint, to_yaml(objects))
    if asked.yaml:
        write_atomically(Path(asked.yaml), text)
        say(f"the job's manifests are in {asked.yaml}; nothing was made")
    if asked.dry_run:
        click.echo(text, nl=False)
    return 0


def _commented(blueprint: Blueprint, objects: str) -> str:
    """With what comes of them once they are applied: in words before, and after them as pods."""
    spec = blueprint.spec
    servers = figures.plural(spec.num_ps_pods or 0, "parameter server")
    pods = f"{servers} and up to {figures.plural(spec.num_workers, 'worker')}"
    without = dataclasses.replace(blueprint, environ={})  # which are not the master's
    added = (
        f", besides variables of its own that fit {spec.populate_env_names}"
        if spec.populate_env_names
        else ""
    )
    return (
        "# `kubectl apply -f` of this begins the job; manifests/elasticdl-rbac.yaml has the rights for it.\n"
        f"# Its master makes the pods of {pods}, and in the place of\n"
        "# Secret and Services its own: so the token is in no file, and all of it goes with the job.\n"
        f"{objects}"
        f"# What the master makes of pods when it begins{added}:\n"
        "#\n" + indent(to_yaml(without.pod(pod) for pod in pods_to_come(spec)), "# ")
    )


_one_at_a_time = threading.Lock()


def _echo(line: str) -> None:
    """Lines come from the thread that reads the log, and from the one that watches the pod."""
    with _one_at_a_time:
        click.echo(line)
