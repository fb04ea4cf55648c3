"""What a real API server, and a real kubelet, make of a job's objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from elastic_runtime.errors import ElasticError
from elastic_runtime.platform.kubernetes import labels, state
from elastic_runtime.platform.kubernetes.container import own_container
from elastic_runtime.platform.kubernetes.manifest import to_yaml
from elastic_runtime.platform.kubernetes.objects import Blueprint, Owner, owner_of
from elastic_runtime.platform.pods import Phase, PodSpec, Role, pod_name
from elastic_runtime.spec.arguments import parse
from tests.cluster.jobs import RESOURCES, ClusterJob, bound
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster
from tests.cluster.kit.commands import until
from tests.cluster.kit.namespace import Namespace
from tests.unit.platform.kubernetes.plans import TUTORIAL
from tests.unit.spec.tutorials import COMMANDS, typed

pytestmark = pytest.mark.timeout(900)  # each wait has its own, shorter limit
MANIFESTS = Path(__file__).parents[2] / "manifests"
NOBODY = Owner(
    kind="ConfigMap", api_version="v1", name="elasticdl-j", uid="00000000-0000-0000-0000-000000000000"
)
ENOUGH = ("--job_name=j", "--model_def=m", "--training_data=s3://d", "--image_name=registry/m:1")
SLEEP = ("sh", "-c", "trap exit TERM; sleep 600 & wait $!")
TUTORIALS = {name: words for name, (command, words) in COMMANDS.items() if command == "train"}


def plan(namespace: Namespace, *options: str) -> Blueprint:
    """The blueprint of a job in the test's namespace."""
    return Blueprint.of(parse("train", [*ENOUGH, *options, f"--namespace={namespace.name}"]).spec)


def child(blueprint: Blueprint, role: Role, *command: str, index: int = 0, **more: Any) -> PodSpec:
    job = blueprint.spec.job_name
    return PodSpec(pod_name(job, role, index), job, role, index, command or SLEEP, **more)


def everything(blueprint: Blueprint, owner: Owner = NOBODY) -> list[Any]:
    return [
        blueprint.anchor(),
        blueprint.secret("token", owner),
        blueprint.master_service(owner),
        blueprint.ps_service(0, owner),
        blueprint.master_pod(SLEEP, owner),
        blueprint.pod(child(blueprint, Role.PS, relaunched_because="preempted"), owner),
        blueprint.pod(child(blueprint, Role.WORKER, index=3), owner),
    ]


def tried(namespace: Namespace, objects: Iterable[Any], *how: str) -> list[dict[str, Any]]:
    """What the API server would make of the objects, as they are printed for users."""
    asked = ("create", "--dry-run=server", "--output=json", "--filename=-", *how)
    answer = namespace.kubectl(*asked, given=to_yaml(objects))
    return [each for document in _json_documents(answer) for each in document.get("items", [document])]


def _json_documents(text: str) -> Iterator[Any]:
    while text := text.strip():
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:]


def with_priorities(cluster: Cluster) -> None:
    for name in ("elasticdl-priorities.yaml", "examples/high-prio.yaml", "examples/low-prio.yaml"):
        cluster.kubectl("apply", "--filename", MANIFESTS / name)


@pytest.mark.parametrize("name", TUTORIALS)
def test_all_objects_of_a_tutorials_job_are_taken(
    cluster: Cluster, namespace: Namespace, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_priorities(cluster)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.py").write_text(TUTORIAL)
    spec = parse("train", [*typed(TUTORIALS[name]), f"--namespace={namespace.name}"]).spec
    if not spec.image_name:  # the client has built one
        spec = spec.model_copy(update={"image_name": "registry/m:1"})
    made = tried(namespace, everything(Blueprint.of(spec)))
    job = spec.job_name
    assert [f"{each['kind']} {each['metadata']['name']}" for each in made] == [
        f"ConfigMap elasticdl-{job}",
        f"Secret elasticdl-{job}",
        f"Service elasticdl-{job}-master",
        f"Service elasticdl-{job}-ps-0",
        f"Pod elasticdl-{job}-master",
        f"Pod elasticdl-{job}-ps-0",
        f"Pod elasticdl-{job}-worker-3",
    ]


def test_a_cluster_spec_makes_every_service_headless_and_marks_every_pod(
    namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.py").write_text(TUTORIAL)
    made = tried(namespace, everything(plan(namespace, "--cluster_spec", "spec.py")))
    services = [each["spec"] for each in made if each["kind"] == "Service"]
    pods = [each for each in made if each["kind"] == "Pod"]
    assert [each["clusterIP"] for each in services] == ["None", "None"]
    assert [each["metadata"]["labels"]["my_app"] for each in pods] == ["elasticdl"] * 3
    wanted = {
        "effect": "NoSchedule",
        "key": "mycluster.com/app-pool",
        "operator": "Equal",
        "value": "elasticdl",
    }
    assert all(wanted in each["spec"]["tolerations"] for each in pods)


def test_every_form_of_every_option_is_taken(cluster: Cluster, namespace: Namespace) -> None:
    with_priorities(cluster)
    forms = {
        "--volume": (
            "claim_name=c,mount_path=/1;claim_name=c,mount_path=/2,sub_path=/a/b;host_path=/h,mount_path=/3;"
            "host_path=/h,type=DirectoryOrCreate,mount_path=/4;claim_name=d,mount_path=/elasticdl",
        ),
        "--worker_resource_request": (
            "cpu=.5,memory=1G",
            "cpu=5,memory=500000K,disk=1Ti",
            "cpu=100m,memory=1Ei,ephemeral-storage=1P",
            "gpu=1",
            "amd.com/gpu=2,memory=3M",
            "nvidia.com/mig-1g.5gb=1",
        ),
        "--worker_pod_priority": ("high=0.5", "0.5", "low", "low-priority"),
        "--restart_policy": ("Never", "OnFailure", "Always"),
        "--image_pull_policy": ("Never", "IfNotPresent", "Always"),
        "--envs": ("A=$(B),b.c-d=1,2,3",),
        "--service_account": ("train.er",),
        "--image_pull_secret": ("a,b.c",),
        "--worker_resource_limit": ("none", "cpu=2,memory=8G"),
        "--node_selector": ("pool=train,example.com/zone=",),
        "--toleration": (
            "key=a;key=b,operator=Exists;operator=Exists,effect=NoExecute,seconds=0;"
            "key=c,operator=Equal,value=d,effect=PreferNoSchedule",
        ),
        "--cluster_spec_json": (
            '{"pod_spec": {"affinity": {"podAffinity": {}}, "env": [{"name": "A"}]}, '
            '"service_spec": {"publishNotReadyAddresses": true}}',
        ),
        "--metrics_port": ("9090",),
    }
    namespace.kubectl("create", "serviceaccount", "train.er")
    api = client.CoreV1Api(connection(cluster))
    for option, value in ((option, value) for option, values in forms.items() for value in values):
        blueprint = plan(namespace, f"{option}={value}")
        for pod in (blueprint.master_pod(SLEEP), blueprint.pod(child(blueprint, Role.WORKER))):
            made = api.create_namespaced_pod(namespace.name, pod, dry_run="All")
            assert made.spec.service_account_name == (blueprint.spec.service_account or "default")
        api.create_namespaced_service(namespace.name, blueprint.master_service(), dry_run="All")


def test_a_namespace_of_the_restricted_standard_takes_a_job_without_host_paths(
    cluster: Cluster, namespace: Namespace
) -> None:
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace.name, enforce)
    assert len(tried(namespace, everything(plan(namespace, "--volume=claim_name=c,mount_path=/c")))) == 7
    with pytest.raises(ElasticError, match="restricted volume types"):
        tried(namespace, everything(plan(namespace, "--volume=host_path=/h,mount_path=/h")))


def test_a_pod_sees_what_it_was_given(cluster: Cluster, namespace: Namespace, tmp_path: Path) -> None:
    """Its name, its token, its text as it was written, one claim at two places, a folder of its own."""
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        folder.chmod(0o777)  # as the one who exports it would have it
    with_claim(cluster, namespace, "c", tmp_path)
    blueprint = plan(
        namespace,
        f"--image_name={cluster.image('busybox')}",
        "--envs=PRICE=$(HOME) $5",
        "--volume=claim_name=c,mount_path=/a;claim_name=c,mount_path=/b,sub_path=/sub",
        "--worker_resource_request=cpu=0.1,memory=50M",
    )
    script = (
        'echo "$ELASTICDL_POD $ELASTICDL_NAMESPACE $ELASTICDL_TOKEN $PRICE"; id -u; '
        "echo through >/b/written && cat /a/sub/written; echo own >/elasticdl/own && cat /elasticdl/own; "
        '[ "$ELASTICDL_POD_IP" ] && [ "$ELASTICDL_POD_UID" ] && [ ! -e /var/run/secrets ] && echo well'
    )
    worker = blueprint.pod(child(blueprint, Role.WORKER, "sh", "-c", script))
    created(namespace, blueprint.secret("secret"), worker)
    namespace.wait_for_phase("Succeeded", "pod/elasticdl-j-worker-0")
    assert namespace.kubectl("logs", "elasticdl-j-worker-0").splitlines() == [
        f"elasticdl-j-worker-0 {namespace.name} secret $(HOME) $5",
        "1000",
        "through",
        "own",
        "well",
    ]
    assert (tmp_path / "sub" / "written").read_text() == "through\n"


def test_the_nodes_own_folder_is_seen_by_whom_the_image_says(
    cluster: Cluster, namespace: Namespace, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("of the node\n")
    tmp_path.chmod(0o700)
    blueprint = plan(
        namespace,
        f"--image_name={cluster.image('busybox')}",
        f"--volume=host_path={tmp_path},type=Directory,mount_path=/data",
        "--worker_resource_request=cpu=0.1,memory=50M",
    )
    script = "cat /data/data; echo more >/data/more"
    created(
        namespace, blueprint.secret("t"), blueprint.pod(child(blueprint, Role.WORKER, "sh", "-c", script))
    )
    namespace.wait_for_phase("Succeeded", "pod/elasticdl-j-worker-0")
    assert namespace.kubectl("logs", "elasticdl-j-worker-0") == "of the node\n"
    assert (tmp_path / "more").read_text() == "more\n"


def test_when_the_last_pod_is_deleted_the_cluster_removes_all_the_rest(
    cluster: Cluster, namespace: Namespace
) -> None:
    blueprint = plan(
        namespace,
        f"--image_name={cluster.image('busybox')}",
        *(f"--{role}_resource_request=cpu=0.1,memory=50M" for role in Role),
    )
    api = client.CoreV1Api(connection(cluster))
    anchor = api.create_namespaced_config_map(namespace.name, blueprint.anchor())
    owner = owner_of(anchor)
    _, secret, *services, master, ps, worker = everything(blueprint, owner)
    created(namespace, secret, *services)
    pods = [api.create_namespaced_pod(namespace.name, pod) for pod in (master, ps, worker)]
    owners = [owner_of(pod).reference() for pod in pods]
    api.patch_namespaced_config_map(
        anchor.metadata.name, namespace.name, {"metadata": {"ownerReferences": owners}}
    )
    left = "configmap,secret,service,pod"

    def named(selector: str, kinds: str = left) -> set[str]:
        found = namespace.kubectl("get", kinds, f"--selector={selector}", "--output=name")
        return {line.partition("/")[2] for line in found.split()}

    job, master_only = blueprint.spec.job_name, {"elasticdl-j-master"}
    assert len(namespace.get(left, f"--selector={labels.all_of(job)}")["items"]) == 7
    assert named(labels.pods_of(job), "pod") == master_only | {"elasticdl-j-ps-0", "elasticdl-j-worker-3"}
    assert named(labels.pods_of(job), "configmap,secret") == set()
    assert named(labels.master_of(job), "pod") == named(labels.MASTERS, "pod") == master_only
    assert named(labels.ANY_JOB, "configmap") == {"elasticdl-j"}

    namespace.wait_for_phase("Running", *(f"pod/{pod.metadata.name}" for pod in pods))
    namespace.kubectl("delete", "pod", "elasticdl-j-worker-3")
    assert named(labels.all_of(job), "configmap") == {"elasticdl-j"}  # others are left
    namespace.kubectl("delete", "pod", f"--selector={labels.all_of(job)}")
    for kind in ("configmap", "secret"):
        namespace.wait("--for=delete", f"{kind}/elasticdl-j")
    for service in services:
        namespace.wait("--for=delete", f"service/{service.metadata.name}")
    assert named(labels.all_of(job)) == set()


def test_the_manifest_of_rights_cures_exactly_the_error_of_a_master_without(
    cluster: Cluster, namespace: Namespace
) -> None:
    account = f"system:serviceaccount:{namespace.name}:default"
    blueprint = plan(namespace)
    objects = everything(blueprint)
    with pytest.raises(ElasticError) as error:
        tried(namespace, objects[-1:], f"--as={account}")
    assert f'pods is forbidden: User "{account}" cannot create resource "pods"' in str(error.value)
    reviews = client.AuthorizationV1Api(connection(cluster))

    def may(verb: str, kind: str, where: str = namespace.name) -> bool:
        resource, _, part = kind.partition("/")
        asked = client.V1ResourceAttributes(namespace=where, verb=verb, resource=resource, subresource=part)
        spec = client.V1SubjectAccessReviewSpec(user=account, resource_attributes=asked)
        review = reviews.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
        return bool(review.status.allowed)

    namespace.kubectl("apply", "--filename", MANIFESTS / "examples/elasticdl-rbac.yaml")
    rules = namespace.get("role", "elasticdl")["rules"]
    rights = {(verb, kind) for rule in rules for kind in rule["resources"] for verb in rule["verbs"]}
    known = "the API server knows of the rights"
    until(lambda: all(may(*right) for right in rights), what=known, seconds=PATIENCE_SECONDS)
    assert len(tried(namespace, objects, f"--as={account}")) == len(objects)
    assert not any(may(*right, where="default") for right in rights)
    for more in (("get", "secrets"), ("list", "secrets"), ("patch", "pods"), ("create", "pods/exec")):
        assert not may(*more)


@pytest.mark.parametrize("name", ["elasticdl-demo-minikube.yaml", "elasticdl-demo-k8s.yaml"])
def test_a_demo_manifest_is_taken(namespace: Namespace, name: str) -> None:
    asked = ("create", "--dry-run=server", "--output=yaml", "--filename", MANIFESTS / "examples" / name)
    made = yaml.safe_load(namespace.kubectl(*asked))
    assert made["metadata"]["name"] == "elasticdl-test-mnist-master"


def test_a_pod_has_ended_and_is_read_by_its_own_container_whatever_a_mesh_has_put_beside_it(
    cluster: Cluster, namespace: Namespace
) -> None:
    image = cluster.image("busybox")
    blueprint = plan(namespace, f"--image_name={image}", "--worker_resource_request=cpu=0.1,memory=50M")
    worker = blueprint.pod(child(blueprint, Role.WORKER, "sh", "-c", "echo own; exit 3"))
    proxy = client.V1Container(name="proxy", image=image, command=["sh", "-c", "echo not; sleep 600"])
    worker.spec.containers.insert(0, proxy)
    created(namespace, blueprint.secret("secret"), worker)
    api = client.CoreV1Api(connection(cluster))
    name = worker.metadata.name

    def seen() -> Any:
        return api.read_namespaced_pod(name, namespace.name)

    until(lambda: state.phase(seen()) is Phase.ENDED, what="it has ended", seconds=PATIENCE_SECONDS)
    assert seen().status.phase == "Running"
    assert state.verdict(seen()).exit_code == 3
    assert namespace.log(name, own_container(seen()).name) == "own\n"
    assert namespace.kubectl("logs", name) == "own\n", "kubectl is told, too"


def connection(cluster: Cluster) -> client.ApiClient:
    """The administrator's."""
    return config.new_client_from_config(str(cluster.kubeconfig))


def created(namespace: Namespace, *objects: Any) -> None:
    namespace.kubectl("create", "--filename=-", given=to_yaml(objects))


def with_claim(cluster: Cluster, namespace: Namespace, name: str, folder: Path) -> None:
    """A claim to a volume that is this folder; the volume stays as long as the cluster."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace.name}-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace.name, "name": name},
            "storageClassName": "none",
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "none",
        },
    }
    cluster.apply(volume)
    namespace.apply(claim)


@pytest.mark.timeout(1500)
def test_a_demo_needs_nobody_but_its_master(namespace: Namespace, job_image: str, tmp_path: Path) -> None:
    """Applied by hand, with the image, model and data of a test: it trains, and only its pod is left."""
    folder = ClusterJob(namespace, tmp_path / "job", job_image).folder
    namespace.kubectl("apply", "--filename", MANIFESTS / "elasticdl-rbac.yaml")
    text = (MANIFESTS / "examples/elasticdl-demo-k8s.yaml").read_text()
    pod = yaml.safe_load(text.replace("reg.docker.com/user/elasticdl:dev", job_image))
    container = pod["spec"]["containers"][0]
    container["resources"]["requests"] = {"cpu": "100m", "memory": "200Mi"}
    container["volumeMounts"].append({"name": "job", "mountPath": "/job"})
    pod["spec"]["volumes"].append({"name": "job", "hostPath": {"path": str(folder)}})
    container["command"] = [
        *(word for word in container["command"] if "validation" not in word and "evaluation" not in word),
        *("--model_zoo=/job/zoo", "--model_def=tiny.custom_model", "--training_data=/job/data"),
        *(f"--volume=host_path={folder},mount_path=/job", *bound(RESOURCES)),
    ]
    namespace.apply(pod)
    namespace.wait_for_phase("Succeeded", "pod/elasticdl-test-mnist-master", seconds=900)
    assert "job test-mnist succeeded" in namespace.kubectl("logs", "elasticdl-test-mnist-master")
    left = "configmap,secret,service,pod"
    gone = (
        "secret/elasticdl-test-mnist",
        *(f"service/elasticdl-test-mnist-{pod}" for pod in ("master", "ps-0")),
    )
    namespace.wait("--for=delete", *gone)
    found = namespace.get(left, f"--selector={labels.all_of('test-mnist')}")["items"]
    assert [each["kind"] for each in found] == ["Pod"]
