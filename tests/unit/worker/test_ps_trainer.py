"""What a worker makes of what its parameter servers will not do."""

from types import SimpleNamespace

import numpy as np
import pytest

from elastic_runtime.ps.client import PSRefused, PSUnavailable, Reason
from elastic_runtime.worker.trainers.base import SnapshotLost
from tests.unit.ps.ps_worlds import client, servers

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("reason", "told"), [(Reason.NO_SNAPSHOT, SnapshotLost), (Reason.ERA, PSUnavailable)]
)
def test_a_snapshot_that_no_server_keeps_is_lost_and_one_of_another_era_is_waited_for(
    module_of, reason, told
):
    from elastic_runtime.worker.trainers.ps import PSTrainer

    def pull(weights, state, *, snapshot):
        raise PSRefused(f"no snapshot of version {snapshot} is kept", reason=reason)

    trainer = PSTrainer(
        module_of(lambda: None), worker="w", incarnation="i", token="", use_async=False, pull_every=1, seed=0
    )
    trainer._client = SimpleNamespace(pull=pull)
    trainer._weights = trainer._state = np.zeros(1, np.float32)
    with pytest.raises(told, match="no snapshot of version 50 is kept"), trainer.evaluating(50):
        pass


@pytest.fixture
def trainer_of(module_of):
    """`trainer_of(name)` is a built trainer of a model with one weight on each of two servers."""
    import keras
    import tensorflow as tf

    from elastic_runtime.worker.trainers.ps import PSTrainer

    made = []

    def model():
        return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])

    def make(name):
        trainer = PSTrainer(
            module_of(model), worker=name, incarnation=name, token="", use_async=True, pull_every=1, seed=0
        )
        trainer.build((tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])))
        made.append(trainer)
        return trainer

    yield make
    for trainer in made:
        trainer.close()


def give(trainer, value, at, era=1):
    """These servers hold a model of which all weights are that number, as is its version."""
    values = np.full_like(trainer._weights, value)
    with client(at, era=era, use_async=True) as other:
        other.initialize(trainer._flat.layout, values, trainer._state, trainer._config, version=value)


@pytest.fixture
def copy_of(trainer_of):
    """`copy_of(version)` is a trainer with a copy of that version, in which all weights are that number."""

    def make(version):
        trainer = trainer_of(f"w{version}")
        with servers(2) as (_, at):
            give(trainer, version, at)
            trainer.connect(at, 1)
        return trainer

    return make


def held(shards):
    return [shard.store.model and shard.store.model.weights.tolist() for shard in shards]


def test_servers_without_a_model_get_that_of_the_worker_the_master_chose_and_no_part_of_others(
    trainer_of, copy_of
):
    early, chosen, late, new = copy_of(7), copy_of(5), copy_of(3), trainer_of("new")
    with servers(2) as (shards, at):
        for trainer in (early, new):
            with pytest.raises(PSUnavailable, match="no worker has brought the model yet"):
                trainer.connect(at, 2)
        assert held(shards) == [None, None]
        chosen.upload(at, 2)
        for trainer in (early, chosen, late, new):
            trainer.connect(at, 2)
            assert (trainer.copy_version, trainer._weights.tolist()) == (5, [5, 5])
        assert held(shards) == [[5], [5]]


def test_worker_that_heard_late_gives_the_successor_of_a_server_no_first_values(trainer_of):
    """The era it was told of is over: one server has come anew, at the same address."""
    with servers(2) as (shards, at):
        give(trainer_of("a"), 4, at)
        shards[1].store.model = None
        with pytest.raises(PSUnavailable):
            trainer_of("b").connect(at, 1)
        assert held(shards) == [[4], None]


def test_first_values_of_the_chosen_worker_are_version_0(trainer_of):
    one, other = trainer_of("a"), trainer_of("b")
    with servers(2) as (shards, at):
        one.upload(at, 1)
        other.connect(at, 1)
        assert (shards[0].store.version, other.copy_version) == (0, 0)


def test_copy_that_a_pull_broke_off_is_whole_when_it_is_uploaded(copy_of):
    trainer = copy_of(7)
    with servers(2) as (shards, at):
        give(trainer, 4, at, era=2)
        shards[1].end()
        trainer._open(at, 2)
        with pytest.raises(PSUnavailable):
            trainer._pull(0)
    with servers(2) as (shards, at):
        trainer.upload(at, 3)
        assert (held(shards), shards[0].store.version) == ([[7], [7]], 7)


def test_a_part_that_another_worker_has_brought_makes_an_upload_fail(copy_of, trainer_of):
    """Two masters may count the same era: the model would be of both workers."""
    chosen, other = copy_of(5), trainer_of("other")
    with servers(2) as (shards, at):
        other.upload(at, 2)
        shards[1].store.model = None  # as if it had not come so far
        with pytest.raises(PSUnavailable, match="a parameter server has a model of era 2 already"):
            chosen.upload(at, 2)


def test_the_chosen_worker_trains_on_only_when_the_era_has_begun(copy_of):
    import numpy as np

    chosen, batch = copy_of(5), (np.ones((1, 2), np.float32), np.ones((1, 1), np.float32))
    with servers(2, use_async=True) as (_, at):
        chosen.upload(at, 2)
        with pytest.raises(PSUnavailable, match="the model is being brought back"):
            chosen.train_batch(batch)
        chosen.connect(at, 2)
        assert chosen.train_batch(batch).version == 6
