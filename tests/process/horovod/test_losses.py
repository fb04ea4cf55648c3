"""Nobody waits for a peer that is lost: the others' call fails long before gloo's timeout, and they go on."""

from __future__ import annotations

import socket
from signal import SIGCONT, SIGKILL
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from horovod_crowd import Member

pytestmark = pytest.mark.tensorflow
AT_ONCE = 60.0  # half a second on a machine with nothing else to do; gloo's timeout is 90


def goes_on(members: list[Member]) -> None:
    from horovod_crowd import all_do, form

    all_do(members, "shutdown")
    form(members)
    assert all_do(members, "grouped_sums", step=1)[0][0] == len(members)


@pytest.mark.parametrize("lost", [0, 1])
def test_survivors_of_a_killed_peer_fail_at_once_and_go_on(members: list[Member], lost: int) -> None:
    from horovod_crowd import form

    form(members)
    victim = members.pop(lost)
    for member in members:
        member.tell("mean", values=[1.0, 1.0, 1.0])
    victim.signal(SIGKILL)
    for member in members:
        answer = member.answer(AT_ONCE)
        assert answer.error
        assert "HorovodAllreduce" in answer.error
    goes_on(members)


def test_a_peer_lost_in_the_middle_of_a_message_fails_its_sender_at_once(members: list[Member]) -> None:
    sender, receiver, third = in_mid_message(members)
    receiver.signal(SIGKILL)
    assert sender.answer(AT_ONCE).error
    goes_on([sender, third])


def test_a_peer_lost_in_the_middle_of_a_message_fails_its_receiver_at_once(members: list[Member]) -> None:
    sender, receiver, third = in_mid_message(members)
    sender.stop()
    receiver.signal(SIGCONT)
    sender.signal(SIGKILL)
    assert receiver.answer(AT_ONCE).error
    goes_on([receiver, third])


def in_mid_message(members: list[Member]) -> list[Member]:
    """The same, the second stopped while it receives a message of the first."""
    from horovod_crowd import form, stopped_while_receiving

    sender, receiver, _ = members
    form([sender, receiver])
    for member in (sender, receiver):
        member.tell("large_copies", times=1000, megabytes=128)
    stopped_while_receiving(sender, receiver)
    return members


def test_abort_ends_the_wait_for_a_stopped_peer(members: list[Member]) -> None:
    from horovod_crowd import form

    form(members)
    stopped = members[1]
    others = [members[0], members[2]]
    stopped.stop()
    for member in others:
        member.tell("mean", values=[1.0, 1.0, 1.0])
    assert all(member.waits() for member in others)
    for member in others:
        member.abort()
    for member in others:
        assert member.answer(AT_ONCE).error
    goes_on(others)
    stopped.signal(SIGCONT)
    stopped.tell("mean", values=[1.0, 1.0, 1.0])
    assert stopped.answer(AT_ONCE).error


def test_abort_holds_until_shutdown(members: list[Member]) -> None:
    from horovod_crowd import form

    form(members)
    for member in members:
        member.abort()
        member.abort()
        member.tell("mean", values=[1.0, 1.0, 1.0])
        assert member.answer(AT_ONCE).error
    goes_on(members)


def test_abort_ends_the_wait_for_a_member_that_never_comes(members: list[Member]) -> None:
    from horovod_crowd import Rendezvous

    rendezvous = Rendezvous(3)
    for rank, member in enumerate(members[:2]):
        member.tell("init", env=rendezvous.env(rank))
    assert all(member.waits() for member in members[:2])
    for member in members[:2]:
        member.abort()
    for member in members[:2]:
        assert "ValueError" in (member.answer(AT_ONCE).error or "")
    goes_on(members)


def test_a_rendezvous_that_fails_is_an_error_and_the_next_one_succeeds(members: list[Member]) -> None:
    from horovod_crowd import Rendezvous, form

    rendezvous = Rendezvous(3, timeout=1)
    for rank, member in enumerate(members[:2]):
        member.tell("init", env=rendezvous.env(rank))
    for member in members[:2]:
        assert "ValueError" in (member.answer().error or "")
    form(members)


def test_a_rendezvous_server_that_says_nothing_does_not_hold_an_aborted_member(members: list[Member]) -> None:
    from horovod_crowd import settings

    with socket.create_server(("127.0.0.1", 0)) as silent:
        members[0].tell("init", env=settings(0, 3, silent.getsockname()[1], 90))
        connection, _ = silent.accept()
        members[0].abort()
        assert "ValueError" in (members[0].answer().error or "")
        connection.close()
    goes_on(members)
