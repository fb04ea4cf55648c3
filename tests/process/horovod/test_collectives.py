"""What a world computes, and that one process goes through many worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from horovod_crowd import Member

pytestmark = pytest.mark.tensorflow


def test_every_member_has_the_same_averages_sums_and_copies(members: list[Member]) -> None:
    from horovod_crowd import all_do, form

    form(members)
    assert all_do(members, "mean", values=[1.0, 2.0, 6.0], length=1000) == [(3.0, 3.0)] * 3
    assert all_do(members, "mean", values=[1.0, 2.0, 6.0], compressed=True) == [(3.0, 3.0)] * 3
    rows = [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.5, 0.5]]
    third = [[pytest.approx(2 / 3 * value) for value in row] for row in rows]
    assert all_do(members, "mean_of_rows", rows=[1, 3, 1], shape=(4, 2)) == [third] * 3
    assert all_do(members, "grouped_sums", step=5) == [(15.0, 3.0)] * 3
    assert all_do(members, "gather") == [[0, 1, 1, 2, 2, 2]] * 3
    for rank, member in enumerate(members):
        member.tell("broadcast", value=7.0 + rank)
    assert [member.value() for member in members] == [7.0] * 3


@pytest.mark.parametrize("length", [1, 7, 1_000_003], ids=["one", "few", "many messages"])
def test_a_sum_is_exact_and_leaves_what_was_summed_as_it_was(members: list[Member], length: int) -> None:
    from horovod_crowd import all_do, form

    form(members)
    assert all_do(members, "sum_of_ramps", length=length) == [(True, True)] * 3
    assert all_do(members, "sum_of_ramps", length=length, scale=0.5) == [(True, True)] * 3


def test_a_sum_of_half_floats_does_not_depend_on_what_was_there_before(members: list[Member]) -> None:
    """The bits of the first value, read as a number, are the sum: Gloo once took that for the sum itself."""
    from horovod_crowd import all_do, form

    form(members)
    values = [9 * 2.0**-24, 4.0, 5.0]
    assert all_do(members, "sums_of_halves", values=values, length=3000) == [(9.0, 9.0)] * 3


def test_a_process_goes_through_many_worlds_of_changing_size_and_rank(members: list[Member]) -> None:
    from horovod_crowd import all_do, form

    first, second, third = members
    open_files = None
    for turn in range(5):
        for world in ([first, second, third], [third, first], [second], [second, third]):
            form(world)
            size = len(world)
            assert all_do(world, "grouped_sums", step=turn) == [(turn * size, sum(range(size)))] * size
            all_do(world, "shutdown")
        now = all_do(members, "open_files")
        open_files = open_files or now
    assert now == open_files
