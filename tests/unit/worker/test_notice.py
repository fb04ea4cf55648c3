"""How long a worker that is to go may still work."""

from elastic_runtime.worker.effort import Effort
from elastic_runtime.worker.notice import FINISH_SECONDS, Notice


class Clock:
    now = 50.0

    def __call__(self):
        return self.now


def test_there_is_time_for_what_ends_well_before_a_pod_is_killed():
    clock = Clock()
    notice = Notice(clock)
    assert (notice.given, notice.leaves(0.0)) == (False, False)
    notice.give()
    assert notice.given
    assert notice.leaves(FINISH_SECONDS - 1)
    assert not notice.leaves(FINISH_SECONDS + 1)
    clock.now += FINISH_SECONDS - 1
    assert notice.leaves(0.5)
    assert not notice.leaves(2.0)


def test_told_twice_it_has_no_time():
    clock = Clock()
    notice = Notice(clock)
    notice.give()
    notice.give()
    assert notice.given
    assert not notice.leaves(0.0)


def test_the_rest_of_a_shard_takes_as_long_as_its_fastest_step_lets_expect():
    clock = Clock()
    effort = Effort(clock)

    def compiled():
        clock.now += 30

    def step():
        clock.now += 1.5

    effort.begin(64)
    assert effort.seconds_left() is None, "it was not begun"
    effort.run(compiled, 16)
    assert effort.seconds_left() == 3 * 30
    clock.now += 0.5
    effort.read()
    effort.run(step, 16)
    assert effort.seconds_left() == 2 * 2.0
    for _ in range(4):  # its feed repeats
        effort.run(step, 16)
    assert effort.seconds_left() == 0.0
    effort.begin(64)
    assert effort.seconds_left() is None, "nor this"
