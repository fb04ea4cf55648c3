"""Jobs and their blueprints, as short as tests want them, and the cluster spec that the tutorial prints."""

from elastic_runtime.platform.kubernetes.objects import Blueprint, Owner
from elastic_runtime.platform.pods import PodSpec, Role, pod_name
from elastic_runtime.spec.arguments import parse

ENOUGH = ("--job_name=j", "--model_def=m", "--training_data=s3://d", "--image_name=registry/m:1")
ANCHOR = Owner(kind="ConfigMap", api_version="v1", name="elasticdl-j", uid="5f1c")
TUTORIAL = """
from kubernetes import client

class MyCluster:
    def with_pod(self, pod):
        pod.metadata.labels["my_app"] = "elasticdl"
        tolerations = [
            client.V1Toleration(
                effect="NoSchedule",
                key="mycluster.com/app-pool",
                operator="Equal",
                value="elasticdl",
            ),
        ]
        pod.spec.tolerations = tolerations
        return pod

    def with_service(self, service):
        service.spec.type = "ClusterIP"
        service.spec.cluster_ip = "None"
        return service

cluster = MyCluster()
"""


def job(*options):
    """The specification of a job with these options."""
    return parse("train", [*ENOUGH, *options]).spec


def plan(*options, **environ):
    """Its blueprint, in a process with these variables."""
    return Blueprint(spec=job(*options), environ=environ)


def child(role=Role.WORKER, index=0, number=None, **more):
    """A worker or parameter server as the master asks for it."""
    name = pod_name("j", role, index if number is None else number)
    return PodSpec(name, "j", role, index, ("python", "-m", f"elastic_runtime.{role}"), **more)


def container(pod):
    """The only one."""
    (found,) = pod.spec.containers
    return found


def variables(pod):
    """Those with a value, by name."""
    return {each.name: each.value for each in container(pod).env if each.value is not None}
