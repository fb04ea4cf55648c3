"""Why a pod ended, where what the API says of it has two readings."""

from datetime import UTC, datetime

import pytest
from kubernetes.client import (
    V1Container,
    V1ContainerState,
    V1ContainerStateRunning,
    V1ContainerStateTerminated,
    V1ContainerStateWaiting,
    V1ContainerStatus,
    V1ObjectMeta,
    V1Pod,
    V1PodCondition,
    V1PodSpec,
    V1PodStatus,
    V1ResourceRequirements,
)

from elastic_runtime.platform.exits import Verdict
from elastic_runtime.platform.kubernetes import labels, state
from elastic_runtime.platform.kubernetes.container import DEFAULT
from elastic_runtime.platform.pods import ExitCause, Phase, Role


def ended(code: int, *, while_deleted: bool, role: Role = Role.WORKER) -> V1Pod:
    terminated = V1ContainerState(terminated=V1ContainerStateTerminated(exit_code=code))
    container = V1ContainerStatus(
        name="main", image="i", image_id="", ready=False, restart_count=0, state=terminated
    )
    since = datetime.now(UTC) if while_deleted else None
    return V1Pod(
        metadata=V1ObjectMeta(name="p", deletion_timestamp=since, labels=labels.labels("j", role)),
        status=V1PodStatus(phase="Failed", container_statuses=[container]),
    )


@pytest.mark.parametrize(
    ("code", "cause", "by_itself"),
    [
        (75, ExitCause.DRAINED, "exit code 75"),
        (143, ExitCause.PREEMPTED, "killed by SIGTERM"),
        (137, ExitCause.PREEMPTED, "killed by SIGKILL"),
    ],
)
def test_who_leaves_because_of_its_deletion_is_said_to_be_deleted(code, cause, by_itself):
    """A client tells by it a job that its user has deleted from one whose master is to be replaced."""
    assert state.verdict(ended(code, while_deleted=True)) == Verdict(cause, code, state.DELETED)
    assert state.verdict(ended(code, while_deleted=False)) == Verdict(cause, code, by_itself)


def test_a_parameter_server_that_is_deleted_is_said_to_be_though_it_ends_in_order():
    ends = [state.verdict(ended(0, while_deleted=deleted, role=Role.PS)) for deleted in (True, False)]
    assert ends == [
        Verdict(ExitCause.DRAINED, 0, state.DELETED),
        Verdict(ExitCause.COMPLETED, 0, "exit code 0"),
    ]


@pytest.mark.parametrize("role", [Role.WORKER, Role.MASTER])
def test_work_that_was_done_stays_done_though_the_pod_is_being_deleted(role):
    assert state.verdict(ended(0, while_deleted=True, role=role)).cause is ExitCause.COMPLETED


def test_an_error_stays_one_though_the_pod_is_being_deleted():
    assert state.verdict(ended(1, while_deleted=True)).cause is ExitCause.ERROR


@pytest.mark.parametrize("code", [75, 143, 1])
def test_a_pod_that_had_to_leave_its_node_is_no_failure_of_its_own_however_it_ended(code):
    """A node that is taken for lost and is not, as after an absence of the API, ends its pods in order."""
    pod = ended(code, while_deleted=True)
    pod.status.conditions = to_be_moved("True").status.conditions
    assert state.verdict(pod).cause is ExitCause.NODE_LOST


def evicted(message: str, *conditions: V1PodCondition, code: int | None = 137) -> V1Pod:
    """By its node, as the kubelet says it, before or after its container was heard of."""
    pod = ended(code or 0, while_deleted=False)
    pod.status.reason, pod.status.message, pod.status.conditions = "Evicted", message, [*conditions]
    if code is None:
        pod.status.container_statuses = None
    return pod


@pytest.mark.parametrize("code", [137, 143, 75, 0, None])
@pytest.mark.parametrize("by_kubelet", [True, False])
@pytest.mark.parametrize(
    "message",
    [
        "Pod ephemeral local storage usage exceeds the total limit of containers 5000Mi. ",
        'Container worker exceeded its local ephemeral storage limit "1Gi". ',
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
    ],
)
def test_who_is_evicted_for_what_it_wrote_itself_has_failed(message, by_kubelet, code):
    """Whatever its last lines are: the platform judges an error again by them."""
    told = V1PodCondition(
        type="DisruptionTarget", status="True", reason="TerminationByKubelet", message=message
    )
    pod = evicted(message, *[told] * by_kubelet, code=code)
    detail = f"evicted by its node: it wrote more than its limit: {message.strip()}"
    assert state.verdict(pod) == Verdict(ExitCause.ERROR, code, detail)
    assert state.verdict(pod, ["MemoryError", "the last line"]) == state.verdict(pod)
    assert state.verdict(pod, deleted=True) == state.verdict(pod)


@pytest.mark.parametrize(
    "message",
    [
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1, available: 0. "
        "Container worker was using 5Gi, request is 0, has larger consumption of ephemeral-storage. ",
        "The node had condition: [DiskPressure]. ",
    ],
)
def test_who_is_evicted_because_its_node_is_low_was_preempted(message):
    told = V1PodCondition(
        type="DisruptionTarget", status="True", reason="TerminationByKubelet", message=message
    )
    assert state.verdict(evicted(message)).cause is ExitCause.PREEMPTED
    assert state.verdict(evicted(message, told)).cause is ExitCause.PREEMPTED


def to_be_moved(ready: str | None) -> V1Pod:
    """A pod that is deleted because of its node, and what was said of its readiness before."""
    told = [V1PodCondition(type="DisruptionTarget", status="True", reason="DeletionByTaintManager")]
    told += [V1PodCondition(type="Ready", status=ready)] if ready else []
    return V1Pod(
        metadata=V1ObjectMeta(deletion_timestamp=datetime.now(UTC)), status=V1PodStatus(conditions=told)
    )


@pytest.mark.parametrize(("ready", "lost"), [("True", False), ("False", True), (None, True)])
def test_a_node_is_lost_that_says_nothing_or_never_said_a_word_of_the_pod(ready, lost):
    """A scheduler that does not know yet may give a pod to a node that is lost already."""
    assert state.node_is_lost(to_be_moved(ready)) is lost


RUNS = V1ContainerState(running=V1ContainerStateRunning())
WAITS = V1ContainerState(waiting=V1ContainerStateWaiting(reason="ErrImagePull", message="no such image"))
KILLED = V1ContainerState(terminated=V1ContainerStateTerminated(exit_code=137, reason="OOMKilled"))


def beside_a_sidecar(own: V1ContainerState, sidecar: V1ContainerState) -> V1Pod:
    """A mesh has put its proxy before the worker's container."""
    states = {"istio-proxy": sidecar, "worker": own}
    limit = V1ResourceRequirements(limits={"memory": "1Gi"})
    return V1Pod(
        metadata=V1ObjectMeta(name="p", annotations={DEFAULT: "worker"}),
        spec=V1PodSpec(
            containers=[
                V1Container(name="istio-proxy", image="proxy"),
                V1Container(name="worker", image="i", resources=limit),
            ]
        ),
        status=V1PodStatus(
            phase="Running",
            container_statuses=[
                V1ContainerStatus(name=name, image="i", image_id="", ready=True, restart_count=0, state=state)
                for name, state in states.items()
            ],
        ),
    )


@pytest.mark.parametrize(
    ("own", "sidecar", "phase"),
    [
        (RUNS, RUNS, Phase.RUNNING),
        (RUNS, WAITS, Phase.RUNNING),
        (RUNS, KILLED, Phase.RUNNING),
        (WAITS, RUNS, Phase.PENDING),
        (KILLED, RUNS, Phase.ENDED),
    ],
)
def test_a_pod_with_a_sidecar_is_where_its_own_container_is(own, sidecar, phase):
    assert state.phase(beside_a_sidecar(own, sidecar)) is phase


def test_a_pod_whose_sidecar_runs_on_has_ended_as_its_own_container_has():
    verdict = state.verdict(beside_a_sidecar(KILLED, RUNS))
    assert verdict == Verdict(ExitCause.OUT_OF_MEMORY, 137, "killed for memory: its limit is 1Gi")


def test_what_a_pod_waits_for_is_its_own_containers_wait():
    assert state.waits_for(beside_a_sidecar(WAITS, RUNS)) == "the image i cannot be pulled: no such image"
    assert not state.waits_for(beside_a_sidecar(RUNS, WAITS))
