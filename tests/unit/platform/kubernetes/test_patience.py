"""When a pod that waits for what may never come is given up."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from kubernetes.client import (
    V1Container,
    V1ContainerState,
    V1ContainerStateWaiting,
    V1ContainerStatus,
    V1ObjectMeta,
    V1Pod,
    V1PodSpec,
    V1PodStatus,
)

from elastic_runtime.platform.kubernetes.patience import Patience, given_up
from elastic_runtime.platform.pods import ExitCause

PULLING, FAILED, WAITING = "ContainerCreating", "ErrImagePull", "ImagePullBackOff"
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


def pod(reason: str = "", *, node: str = "node") -> V1Pod:
    """One that its node has known since yesterday, or says nothing of."""
    waiting = V1ContainerState(waiting=V1ContainerStateWaiting(reason=reason))
    container = V1ContainerStatus(
        name="main", image="i", image_id="", ready=False, restart_count=0, state=waiting
    )
    status = V1PodStatus(phase="Pending", start_time=YESTERDAY, container_statuses=[container])
    spec = V1PodSpec(node_name=node, containers=[V1Container(name="main", image="i")])
    metadata = V1ObjectMeta(name="p")
    return V1Pod(metadata=metadata, spec=spec, status=status if reason else V1PodStatus(phase="Pending"))


def left(*seen: tuple[float, V1Pod]) -> float:
    """Of the patience with one pod, after it was seen so at these times."""
    patience = Patience()
    return [patience.left(found, now) for now, found in seen][-1]


def test_an_image_that_was_pulled_for_long_before_it_failed_once_has_its_whole_time() -> None:
    assert left((0, pod(PULLING)), (900, pod(FAILED))) == 60


def test_failing_and_waiting_to_try_again_is_one_wait() -> None:
    assert left((100, pod(FAILED)), (115, pod(WAITING)), (130, pod(FAILED)), (159, pod(WAITING))) == 1
    assert left((100, pod(FAILED)), (160, pod(WAITING))) == 0


def test_an_image_that_could_be_pulled_again_has_its_whole_time_when_it_fails_anew() -> None:
    assert left((0, pod(FAILED)), (50, pod(PULLING)), (70, pod(FAILED))) == 60


def test_a_node_that_says_at_last_that_the_image_is_wrong_has_not_said_so_all_the_time() -> None:
    assert left((0, pod()), (59, pod(FAILED))) == 60


@pytest.mark.parametrize("found", [pod(PULLING), pod(node="")])
def test_what_is_pulled_or_has_no_room_is_waited_for_without_end(found: V1Pod) -> None:
    assert left((0, found), (1_000_000, found)) == math.inf


def test_it_is_told_which_wait_was_too_long() -> None:
    silent, wrong = given_up(pod()), given_up(pod(FAILED))
    assert (silent.cause, silent.detail) == (
        ExitCause.NODE_LOST,
        "its node is lost: node has said nothing of it for 60 s",
    )
    assert wrong.cause is ExitCause.NEVER_STARTED
    assert wrong.detail == "the image i cannot be pulled: ErrImagePull"
