"""A job's objects: named, labelled, owned and joined so that the job, its users and the cluster find them."""

import dataclasses
import json
from datetime import UTC, datetime

import pytest
import yaml
from kubernetes import client
from plans import ANCHOR, TUTORIAL, child, container, job, plan, variables
from step_pod import step_pod

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes.container import own_container
from elastic_runtime.platform.kubernetes.manifest import to_json, to_yaml
from elastic_runtime.platform.kubernetes.objects import (
    Blueprint,
    Owner,
    command_of,
    owner_of,
    pod_of,
    references_of,
)
from elastic_runtime.platform.pods import Phase, Role
from elastic_runtime.spec.job import JobSpec

MASTER = ("python", "-m", "elastic_runtime.master", "--job_name=j")


def everything(blueprint):
    return [
        blueprint.anchor(),
        blueprint.secret("t", ANCHOR),
        blueprint.master_service(ANCHOR),
        blueprint.ps_service(0, ANCHOR),
        blueprint.master_pod(MASTER, ANCHOR),
        blueprint.pod(child(Role.PS, 0), ANCHOR),
        blueprint.pod(child(Role.WORKER, 1, number=7), ANCHOR),
    ]


def test_objects_have_the_names_of_the_tutorials():
    named = [(type(each).__name__, each.metadata.name) for each in everything(plan())]
    assert named == [
        ("V1ConfigMap", "elasticdl-j"),
        ("V1Secret", "elasticdl-j"),
        ("V1Service", "elasticdl-j-master"),
        ("V1Service", "elasticdl-j-ps-0"),
        ("V1Pod", "elasticdl-j-master"),
        ("V1Pod", "elasticdl-j-ps-0"),
        ("V1Pod", "elasticdl-j-worker-7"),
    ]


def test_every_object_is_in_the_namespace_and_has_the_jobs_label_in_both_spellings():
    for each in everything(plan("--namespace=kubemaker")):
        assert each.metadata.namespace == "kubemaker"
        found = each.metadata.labels
        assert found["app"] == "elasticdl"
        assert found["elasticdl_job_name"] == found["elasticdl-job-name"] == "j"
        assert found["app.kubernetes.io/instance"] == "j"
        assert found["app.kubernetes.io/name"] == found["app.kubernetes.io/managed-by"] == "elasticdl"


def test_pods_and_services_are_labelled_with_role_and_place():
    names = ("elasticdl-replica-type", "elasticdl-replica-index", "app.kubernetes.io/component")
    told = [tuple(each.metadata.labels.get(name) for name in names) for each in everything(plan())]
    assert told == [
        (None, None, None),
        (None, None, None),
        ("master", "0", "master"),
        ("ps", "0", "ps"),
        ("master", "0", "master"),
        ("ps", "0", "ps"),
        ("worker", "1", "worker"),
    ]


def test_the_anchor_owns_all_others_and_keeps_nobody_from_being_deleted_first():
    anchor, *others = everything(plan())
    assert anchor.metadata.owner_references is None
    for each in others:
        (reference,) = each.metadata.owner_references
        assert (reference.kind, reference.api_version) == ("ConfigMap", "v1")
        assert (reference.name, reference.uid) == ("elasticdl-j", "5f1c")
        assert reference.block_owner_deletion is None


def test_what_the_api_has_made_can_own():
    made = client.V1Pod(metadata=client.V1ObjectMeta(name="p", uid="u"))
    owner = owner_of(made)
    assert dataclasses.astuple(owner) == ("Pod", "v1", "p", "u")
    assert owner_of(client.V1ConfigMap(metadata=made.metadata)).kind == "ConfigMap"


def test_the_anchor_is_enough_to_go_on_from():
    spec = job("--num_workers=7", "--volume=claim_name=c,mount_path=/data")
    anchor = Blueprint.of(spec).anchor()
    assert set(anchor.data) == {"job.json"}
    assert JobSpec.from_json(anchor.data["job.json"]) == spec


def test_a_service_picks_the_pods_of_its_place_and_no_others():
    blueprint = plan()
    pods = [
        blueprint.master_pod(MASTER),
        *(blueprint.pod(child(Role.PS, index)) for index in (0, 1, 10)),
        blueprint.pod(child(Role.WORKER, 1)),
    ]
    picked = {
        service.metadata.name: [
            pod.metadata.name for pod in pods if service.spec.selector.items() <= pod.metadata.labels.items()
        ]
        for service in (blueprint.master_service(), blueprint.ps_service(1))
    }
    assert picked == {"elasticdl-j-master": ["elasticdl-j-master"], "elasticdl-j-ps-1": ["elasticdl-j-ps-1"]}


def test_services_lead_to_the_ports_where_pods_listen():
    blueprint = plan()
    for service, pod, number in (
        (blueprint.master_service(), blueprint.master_pod(MASTER), 50001),
        (blueprint.ps_service(0), blueprint.pod(child(Role.PS)), 2222),
    ):
        (port,), (open_port,) = service.spec.ports, container(pod).ports
        assert port.port == open_port.container_port == number  # headless services know no other
        assert port.target_port is None  # the same: a master in a pod of others has no named ports
    assert container(blueprint.pod(child())).ports is None


def test_metrics_have_a_port_of_the_master():
    ports = container(plan("--metrics_port=9090").master_pod(MASTER)).ports
    assert [(port.name, port.container_port) for port in ports] == [("grpc", 50001), ("metrics", 9090)]


def test_a_pod_is_known_again_by_what_is_written_on_it():
    made = plan().pod(child(Role.WORKER, 3, number=12, relaunched_because="preempted"))
    made.metadata.creation_timestamp = datetime(2026, 11, 18, 19, tzinfo=UTC)
    pod = pod_of(made)
    assert (pod.name, pod.role, pod.index) == ("elasticdl-j-worker-12", Role.WORKER, 3)
    assert (pod.relaunched_because, pod.phase, pod.started) == ("preempted", Phase.PENDING, 1795028400.0)
    assert pod_of(plan().master_pod(MASTER)).role is Role.MASTER


def test_an_image_for_workers_is_that_of_parameter_servers_too():
    blueprint = plan("--worker_image=registry/w:1")
    images = [container(each).image for each in everything(blueprint) if isinstance(each, client.V1Pod)]
    assert images == ["registry/m:1", "registry/w:1", "registry/w:1"]


def test_parameter_servers_may_have_an_image_of_their_own():
    blueprint = plan("--worker_image=registry/w:1", "--ps_image=registry/p:1")
    images = [container(each).image for each in everything(blueprint) if isinstance(each, client.V1Pod)]
    assert images == ["registry/m:1", "registry/p:1", "registry/w:1"]


@pytest.mark.parametrize("policy", ["Always", "IfNotPresent", "Never"])
def test_children_inherit_the_pull_policy(policy):
    pods = everything(plan(f"--image_pull_policy={policy}"))[-3:]
    assert {container(pod).image_pull_policy for pod in pods} == {policy}


def test_without_an_image_there_is_no_pod():
    spec = JobSpec(job_name="j", platform="kubernetes")
    with pytest.raises(InputError, match="--image_name: no image is named"):
        Blueprint.of(spec).pod(child())


def test_variables_of_the_job_reach_every_pod_and_those_of_the_master_its_children():
    blueprint = plan(
        "--envs=HOSTS=a,b,MODE=fast",
        "--populate_env_names=MY_[A-Z]*",
        MY_KEY="k",
        MY_="",
        MY_key="x",
        NOT_MY="x",
    )
    master, worker = blueprint.master_pod(MASTER), blueprint.pod(child(env={"MODE": "slow"}))
    assert variables(master) == {"HOSTS": "a,b", "MODE": "fast"}
    assert variables(worker) == {"HOSTS": "a,b", "MODE": "slow", "MY_KEY": "k", "MY_": ""}


def from_secret(key):
    """A variable's source: this key of the secret `store`."""
    return client.V1EnvVarSource(secret_key_ref=client.V1SecretKeySelector(name="store", key=key))


def own_pod(*env, container="main", namespace="default"):
    """The master's, with these variables, beside a container of the engine's."""
    engines = client.V1Container(name="wait", env=[client.V1EnvVar("AWS_NAME", value_from=from_secret("x"))])
    own = client.V1Container(name=container, env=[*env])
    metadata = client.V1ObjectMeta(name="w-train-1", namespace=namespace)
    return client.V1Pod(metadata=metadata, spec=client.V1PodSpec(containers=[engines, own]))


OF_THE_STORE = client.V1ConfigMapKeySelector(name="store", key="region")
OWN = (
    client.V1EnvVar("AWS_KEY", value_from=from_secret("key")),
    client.V1EnvVar("AWS_REGION", value_from=client.V1EnvVarSource(config_map_key_ref=OF_THE_STORE)),
    client.V1EnvVar("AWS_NAME", value_from=client.V1EnvVarSource(field_ref="metadata.name")),
    client.V1EnvVar("AWS_URL", value="http://store"),
    client.V1EnvVar("AWS_MODE", value_from=from_secret("mode")),
    client.V1EnvVar("OTHER", value_from=from_secret("other")),
)
SEEN = {"AWS_KEY": "k3y", "AWS_REGION": "r", "AWS_NAME": "w-train-1", "AWS_URL": "http://store"}


@pytest.mark.parametrize("role", [Role.WORKER, Role.PS])
@pytest.mark.parametrize("name", ["main", "master"])
def test_what_the_master_has_from_a_secret_its_children_have_from_there_too(name, role):
    blueprint = plan("--populate_env_names=AWS_.*", "--envs=AWS_MODE=m", **SEEN, AWS_MODE="s", OTHER="s")
    known = dataclasses.replace(blueprint, references=references_of(own_pod(*OWN, container=name), "default"))
    pod = known.pod(child(role))
    assert variables(pod) == {"AWS_NAME": "w-train-1", "AWS_URL": "http://store", "AWS_MODE": "m"}
    sources = {each.name: each.value_from for each in container(pod).env if each.name.startswith("AWS_")}
    assert (sources["AWS_KEY"], sources["AWS_REGION"]) == (OWN[0].value_from, OWN[1].value_from)
    assert "k3y" not in to_json([pod])
    assert "OTHER" not in to_json([pod])


def test_without_a_secret_within_reach_the_master_tells_its_children_the_value():
    elsewhere, unknown = own_pod(*OWN, namespace="other"), own_pod(*OWN, container="nobody-knows")
    replaced = own_pod(*OWN, client.V1EnvVar("AWS_KEY", value="k3y"))  # Kubernetes goes by the last one
    assert references_of(elsewhere, "default") == references_of(unknown, "default") == {}
    assert references_of(None, "default") == Blueprint.of(job()).references == {}
    assert "AWS_KEY" not in references_of(replaced, "default")
    assert variables(plan("--populate_env_names=AWS_.*", **SEEN).pod(child())) == SEEN


def test_a_cluster_spec_that_changes_a_reference_changes_that_of_one_pod(tmp_path):
    change = "pod.spec.containers[0].env[0].value_from.secret_key_ref.name += '-x'; return pod"
    (tmp_path / "spec.py").write_text(TUTORIAL.replace("return pod", change))
    spec = job(f"--cluster_spec={tmp_path / 'spec.py'}", "--populate_env_names=A")
    own = own_pod(client.V1EnvVar("A", value_from=from_secret("key")))
    blueprint = dataclasses.replace(Blueprint.of(spec, own=own), environ={"A": "s"})
    names = [container(blueprint.pod(child())).env[0].value_from.secret_key_ref.name for _ in range(2)]
    assert names == ["store-x"] * 2


def test_a_pod_is_told_who_it_is_and_reads_the_token_from_the_secret():
    blueprint = plan("--populate_env_names=.*", ELASTICDL_POD="other", ELASTICDL_TOKEN="stolen")
    pod = blueprint.pod(child(env={"ELASTICDL_TOKEN": "in clear"}))
    assert variables(pod) == {}
    told = {each.name: each.value_from for each in container(pod).env}
    fields = {name: source.field_ref.field_path for name, source in told.items() if source.field_ref}
    assert fields == {
        "ELASTICDL_POD": "metadata.name",
        "ELASTICDL_POD_IP": "status.podIP",
        "ELASTICDL_POD_UID": "metadata.uid",
        "ELASTICDL_NAMESPACE": "metadata.namespace",
    }
    secret, reference = blueprint.secret("t"), told["ELASTICDL_TOKEN"].secret_key_ref
    assert reference.name == secret.metadata.name
    assert secret.string_data == {reference.key: "t"}


def test_nobody_sets_the_jobs_own_variables():
    with pytest.raises(InputError, match="--envs: ELASTICDL_TOKEN is set by the job itself"):
        Blueprint.of(job("--envs=A=1,ELASTICDL_TOKEN=guessed"))


def test_text_is_not_taken_for_kubernetes_own_references():
    pod = plan("--envs=PRICE=$(HOME)").pod(dataclasses.replace(child(), command=("sh", "-c", "echo $$ $(A)")))
    assert container(pod).command == ["sh", "-c", "echo $$$$ $$(A)"]
    assert variables(pod) == {"PRICE": "$$(HOME)"}


def test_only_the_master_may_speak_to_the_api():
    blueprint = plan("--service_account=trainer")
    pods = [blueprint.master_pod(MASTER), blueprint.pod(child(Role.PS)), blueprint.pod(child())]
    assert [pod.spec.automount_service_account_token for pod in pods] == [True, False, False]
    assert {pod.spec.service_account_name for pod in pods} == {"trainer"}
    assert plan().pod(child()).spec.service_account_name is None


def account(pod):
    """As whom it runs, and with what its image is pulled."""
    return pod.spec.service_account_name, [each.name for each in pod.spec.image_pull_secrets or ()]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("", ("pipeline-runner", ["registry"])),
        ("pipeline-runner", ("pipeline-runner", ["registry"])),
        ("trainer", ("trainer", [])),  # whose own are taken only where none are named
    ],
)
def test_pods_run_as_their_master_unless_the_job_names_whom_and_have_no_token_of_the_api(named, found):
    own = step_pod(imagePullSecrets=[{"name": "registry"}])
    for role in (Role.WORKER, Role.PS):
        pod = Blueprint.of(job(f"--service_account={named}"), own=own).pod(child(role))
        assert account(pod) == found
        assert pod.spec.automount_service_account_token is False


def test_images_are_pulled_with_the_secrets_that_the_job_names():
    own = step_pod(imagePullSecrets=[{"name": "registry"}])
    for named, master in (("", own), ("trainer", own), ("", None)):
        blueprint = Blueprint.of(job(f"--service_account={named}", "--image_pull_secret=a,b"), own=master)
        pods = [blueprint.master_pod(MASTER), blueprint.pod(child(Role.PS)), blueprint.pod(child())]
        assert [account(pod)[1] for pod in pods] == [["a", "b"]] * 3


def test_where_a_cloud_has_put_the_masters_token_its_children_are_not_told():
    token = {"name": "aws-iam-token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    place = {"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": "/var/run/aws/token"}
    own = step_pod(
        volumes=(token,), mounts=({"name": "aws-iam-token", "mountPath": "/var/run/aws"},), env=(place,)
    )
    told = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/aws/token", "AWS_ROLE_ARN": "r", "AWS_REGION": "eu"}
    blueprint = Blueprint.of(job("--populate_env_names=AWS_.*"), own=own)
    assert variables(dataclasses.replace(blueprint, environ=told).pod(child())) == {"AWS_REGION": "eu"}
    given = Blueprint.of(job("--populate_env_names=AWS_.*", "--envs=AWS_ROLE_ARN=mine"), own=own)
    assert variables(dataclasses.replace(given, environ=told).pod(child()))["AWS_ROLE_ARN"] == "mine"
    assert variables(dataclasses.replace(blueprint, environ=told, kept_back=()).pod(child())) == told


def test_a_mesh_is_told_to_leave_pods_alone_unless_the_job_says_otherwise():
    mark = "sidecar.istio.io/inject"
    for made in everything(plan()):
        is_pod = type(made) is client.V1Pod
        told = made.metadata.labels.get(mark), made.metadata.annotations.get(mark)
        assert told == (("false", "false") if is_pod else (None, None))
    wanted = json.dumps({"pod_spec": {"labels": {mark: "true"}, "annotations": {mark: "true"}}})
    pod = Blueprint.of(job(f"--cluster_spec_json={wanted}")).pod(child())
    assert pod.metadata.labels[mark] == pod.metadata.annotations[mark] == "true"


def test_kubectl_is_told_which_container_is_the_jobs_own():
    workflow = Owner(kind="Workflow", api_version="argoproj.io/v1alpha1", name="w", uid="u")
    for blueprint, name in ((plan(), "worker"), (dataclasses.replace(plan(), workflow=workflow), "main")):
        pod = blueprint.pod(child())
        assert (
            pod.metadata.annotations["kubectl.kubernetes.io/default-container"] == container(pod).name == name
        )
        pod.spec.containers.insert(0, client.V1Container(name="mesh", command=["proxy"]))
        assert own_container(pod).name == name
        assert command_of(pod) == [*child().command]


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_no_container_is_started_again_whatever_restart_policy_is_given(policy):
    pods = everything(plan(f"--restart_policy={policy}"))[-3:]
    assert {pod.spec.restart_policy for pod in pods} == {"Never"}
    assert {pod.spec.termination_grace_period_seconds for pod in pods} == {30}


def test_a_cluster_spec_that_has_containers_started_again_is_refused(tmp_path):
    (tmp_path / "spec.py").write_text(
        TUTORIAL.replace("return pod", "pod.spec.restart_policy = 'Always'; return pod")
    )
    blueprint = Blueprint.of(job(f"--cluster_spec={tmp_path / 'spec.py'}"))
    with pytest.raises(InputError, match="--cluster_spec: the restart policy of elasticdl-j-master is A"):
        blueprint.master_pod(MASTER)


def test_a_master_that_is_applied_by_hand_runs_before_there_is_a_token():
    blueprint = plan()
    pods = blueprint.master_pod(MASTER, by_hand=True), blueprint.master_pod(MASTER), blueprint.pod(child())
    tokens = [each for pod in pods for each in container(pod).env if each.name == "ELASTICDL_TOKEN"]
    assert [each.value_from.secret_key_ref.optional for each in tokens] == [True, None, None]


def test_pods_on_a_lost_node_are_given_up_soon():
    by_key = {each.key: each for each in plan().pod(child()).spec.tolerations}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        told = by_key[key]
        assert (told.operator, told.effect, told.toleration_seconds) == ("Exists", "NoExecute", 5)


def test_where_pods_may_run():
    text = "key=pool,value=train,effect=NoSchedule;key=gpu,operator=Exists,effect=NoExecute,seconds=60"
    pod = plan("--node_selector=pool=train,example.com/zone=a", f"--toleration={text}").pod(child())
    assert pod.spec.node_selector == {"pool": "train", "example.com/zone": "a"}
    assert pod.spec.tolerations[-2:] == [
        client.V1Toleration(key="pool", operator="Equal", value="train", effect="NoSchedule"),
        client.V1Toleration(key="gpu", operator="Exists", effect="NoExecute", toleration_seconds=60),
    ]
    assert plan().pod(child()).spec.node_selector is None


def test_a_fraction_of_the_workers_is_high_by_their_place_and_a_replacement_inherits_it():
    blueprint = plan("--worker_pod_priority=high=0.5", "--num_workers=4")
    classes = [blueprint.pod(child(index=index)).spec.priority_class_name for index in range(4)]
    assert classes == ["high", "low", "low", "high"]
    assert blueprint.pod(child(index=3, number=17)).spec.priority_class_name == "high"


def test_each_role_has_the_priority_class_it_is_given():
    named = ("--master_pod_priority=high-priority", "--worker_pod_priority=low-priority")
    blueprint = plan(*named, "--ps_pod_priority=mine")
    pods = [blueprint.master_pod(MASTER), blueprint.pod(child(Role.PS)), blueprint.pod(child())]
    assert [pod.spec.priority_class_name for pod in pods] == ["high-priority", "mine", "low-priority"]
    assert plan().pod(child()).spec.priority_class_name is None


def test_parameter_servers_are_as_urgent_as_the_master_is_said_to_be():
    """The old tutorial of two jobs names no class for them; a `low` one would be in its own job's way."""
    blueprint = plan("--master_pod_priority=high-priority", "--worker_pod_priority=low-priority")
    pods = [blueprint.master_pod(MASTER), blueprint.pod(child(Role.PS)), blueprint.pod(child())]
    classes = ["high-priority", "high-priority", "low-priority"]
    assert [pod.spec.priority_class_name for pod in pods] == classes


@pytest.mark.parametrize(
    ("workers", "others"),
    [("0.5", "high"), ("high", "high"), ("urgent", "urgent"), ("low", None), ("0", None)],
)
def test_master_and_parameter_servers_are_as_urgent_as_the_workers_that_wait_for_them(workers, others):
    blueprint = plan(f"--worker_pod_priority={workers}")
    for pod in (blueprint.master_pod(MASTER), blueprint.pod(child(Role.PS))):
        assert pod.spec.priority_class_name == others


def test_what_is_printed_is_what_is_made():
    blueprint = plan()
    objects = everything(blueprint)
    documents = list(yaml.safe_load_all(to_yaml(objects)))
    listed = json.loads(to_json(objects))
    assert documents == listed["items"] == client.ApiClient().sanitize_for_serialization(objects)
    assert [list(each)[:3] for each in documents] == [["apiVersion", "kind", "metadata"]] * 7
    assert listed["kind"] == "List"
