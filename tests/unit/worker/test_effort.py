"""What a worker counts as work."""

import pytest

from elastic_runtime.worker.effort import Effort


class World:
    """An effort with a clock in hand."""

    def __init__(self):
        self.now = 100.0
        self.effort = Effort(lambda: self.now)

    def read(self, seconds):
        self.now += seconds
        self.effort.read()

    def step(self, seconds, records=16, problem=None):
        def run():
            self.now += seconds
            if problem:
                raise problem

        self.effort.run(run, records)


def test_reading_and_training_count_and_nothing_else():
    world = World()
    world.effort.begin(64)
    for _ in range(4):
        world.read(0.5)
        world.now += 7.0  # orders, and waiting for the model
        world.step(1.5)
    assert world.effort.seconds == 4 * 2.0
    assert world.effort.records == 64


def test_an_attempt_that_came_to_nothing_does_not_count_and_its_reading_counts_once():
    world = World()
    world.effort.begin(16)
    world.read(0.5)
    with pytest.raises(ConnectionError):
        world.step(30.0, problem=ConnectionError())
    assert (world.effort.seconds, world.effort.records) == (0.0, 0)
    world.step(1.0)
    assert (world.effort.seconds, world.effort.records) == (1.5, 16)


def test_time_between_pieces_of_work_does_not_count():
    world = World()
    world.now += 20.0
    world.effort.begin(16)
    world.read(0.5)
    world.step(0.5)
    assert world.effort.seconds == 1.0


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_the_records_of_finished_work_count_once_whether_its_feed_left_some_out_or_repeated(steps):
    world = World()
    world.effort.begin(64)
    for _ in range(steps):
        world.step(0.1)
    world.effort.end()
    assert world.effort.records == 64
