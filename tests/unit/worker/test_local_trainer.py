"""The Local strategy trains as plain Keras does, and its state can be kept, exchanged, saved and restored."""

import numpy as np
import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps import checkpoint

pytestmark = pytest.mark.tensorflow


def data(rows=8, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, 3)).astype(np.float32), random.normal(size=(rows, 1)).astype(np.float32)


def spec():
    import tensorflow as tf

    return (tf.TensorSpec([None, 3]), tf.TensorSpec([None, 1]))


def model():
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    hidden = layers.Dense(4, kernel_regularizer="l2", activation="relu")
    return keras.Sequential([keras.Input((3,)), hidden, layers.BatchNormalization(), layers.Dense(1)])


@pytest.fixture
def trainer_of(module_of):
    """`trainer_of(create_model, ...)` is a built LocalTrainer."""
    from elastic_runtime.worker.trainers.local import LocalTrainer

    def make(create_model=model, *, seed=0, **parts):
        trainer = LocalTrainer(module_of(create_model, **parts), seed=seed)
        trainer.build(spec())
        return trainer

    return make


def train(trainer, steps, seed=0):
    return [trainer.train_batch(data(seed=seed + step)).loss for step in range(steps)]


def weights(trainer):
    return [np.asarray(w) for w in trainer.model.weights]


def equal(ours, theirs, tolerance=1e-6):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)


def test_ten_steps_are_those_of_keras_itself(trainer_of):
    import keras

    trainer = trainer_of(create_optimizer=lambda: keras.optimizers.Adam(0.01))
    losses = train(trainer, 10)
    plain = model()
    plain.compile(keras.optimizers.Adam(0.01), "mean_squared_error")
    theirs = [plain.train_on_batch(*data(seed=step)) for step in range(10)]
    assert trainer.version == 10
    equal(weights(trainer), [np.asarray(w) for w in plain.weights], 1e-5)
    np.testing.assert_allclose(losses[0], theirs[0], rtol=1e-5)


def test_batches_of_any_size_use_one_trace(trainer_of):
    trainer = trainer_of()
    for rows in (8, 3, 1, 8):
        trainer.train_batch(data(rows))
    assert trainer._step.experimental_get_tracing_count() == 1


def test_subclassed_model_gets_its_variables_from_the_form_of_a_batch(trainer_of):
    import keras

    class Twice(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(inputs) * 2

    trainer = trainer_of(Twice)
    assert [w.shape for w in trainer.model.weights] == [(3, 1), (1,)]
    assert train(trainer, 5)[-1] > 0


def test_training_argument_reaches_a_call_that_takes_it(trainer_of):
    import keras

    class Modes(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, kernel_initializer="zeros")

        def call(self, inputs, training=False):
            return self.dense(inputs) + (100.0 if training else 0.0)

    trainer = trainer_of(Modes, loss=lambda labels, predictions: predictions)
    assert trainer.train_batch(data()).loss == 100.0
    assert abs(float(np.asarray(trainer.predict_batch(data()[0]))[0, 0])) < 50


def test_workers_with_one_fixed_seed_still_drop_out_differently(trainer_of):
    import keras

    def dropping():
        keras.utils.set_random_seed(7)
        ones = keras.layers.Dense(1, kernel_initializer="ones")
        return keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5), ones])

    losses = [train(trainer_of(dropping, seed=seed), 3) for seed in (0, 1, 0)]
    assert losses[0] == losses[2] != losses[1]


def test_a_snapshot_is_shown_and_then_the_present_model_comes_back(trainer_of):
    trainer = trainer_of()
    train(trainer, 2)
    assert trainer.snapshot() == 2
    then = weights(trainer)
    train(trainer, 3)
    now = weights(trainer)
    with trainer.evaluating(2):
        equal(weights(trainer), then, 0)
    equal(weights(trainer), now, 0)
    with trainer.evaluating(0):
        equal(weights(trainer), now, 0)
    trainer.drop_snapshot(2)
    with pytest.raises(ElasticError, match="no snapshot of version 2"), trainer.evaluating(2):
        pass


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_restored_training_goes_on_as_if_it_had_not_stopped(trainer_of, tmp_path, name):
    import keras

    def optimizer():
        return getattr(keras.optimizers, name)(0.01, **({"momentum": 0.9} if name == "SGD" else {}))

    first = trainer_of(create_optimizer=optimizer)
    train(first, 3)
    first.snapshot()
    train(first, 2, seed=3)
    growing = tmp_path / ".growing"
    growing.mkdir()
    assert first.save(growing, 3) == 3
    checkpoint.finish(growing, tmp_path / "version-3", 3, {})
    second = trainer_of(create_optimizer=optimizer)
    second.restore(tmp_path / "version-3")
    assert second.version == 3
    train(second, 2, seed=3)
    equal(weights(second), weights(first))


def test_checkpoint_of_another_model_is_refused(trainer_of, tmp_path):
    import keras

    growing = tmp_path / ".growing"
    growing.mkdir()
    trainer_of().save(growing, 0)
    checkpoint.finish(growing, tmp_path / "version-0", 0, {})
    with pytest.raises(ElasticError, match="is of another model"):
        trainer_of(lambda: keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])).restore(
            tmp_path / "version-0"
        )


def test_learning_rate_follows_a_schedule_of_keras(trainer_of):
    import keras

    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.5, 0.25])
    trainer = trainer_of(create_optimizer=lambda: keras.optimizers.SGD(schedule))
    rates = []
    for _ in range(4):
        rates.append(trainer.learning_rate())
        train(trainer, 1)
    assert rates == [0.5, 0.5, 0.5, 0.25]


@pytest.mark.parametrize("part", ["model", "loss"])
def test_error_in_a_step_names_its_part_of_the_module(trainer_of, part):
    def broken(*_):
        raise ValueError("no good")

    if part == "loss":
        trainer = trainer_of(loss=broken)
        with pytest.raises(ElasticError, match=r"test_local_trainer\.py:\d+, in loss: ValueError: no good"):
            train(trainer, 1)
    else:
        import keras

        class Broken(keras.Model):
            call = broken

        with pytest.raises(ElasticError, match="in model: ValueError: no good"):
            trainer_of(Broken)


def test_callbacks_are_called_with_versions_and_may_stop_the_training(trainer_of):
    import keras

    from elastic_runtime.layers import LearningRateScheduler, MaxStepsStopping
    from elastic_runtime.model.callbacks import Callbacks

    calls = []

    class Spy(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            calls.append(("begin", self.params["batch_size"]))

        def on_train_batch_end(self, batch, logs=None):
            calls.append((batch, logs["loss"]))

        def on_train_end(self, logs=None):
            calls.append("end")

    trainer = trainer_of()
    user = [Spy(), LearningRateScheduler(lambda version: 1.0 / (1 + version)), MaxStepsStopping(2)]
    callbacks = Callbacks(user, model=trainer.model, params={"batch_size": 8})
    callbacks.train_begin()
    while not callbacks.stop_requested:
        callbacks.batch_begin(trainer.version)
        result = trainer.train_batch(data())
        callbacks.batch_end(result.version, result.fetch_loss)
    callbacks.train_end()
    assert [call if isinstance(call, str) else call[0] for call in calls] == ["begin", 1, 2, "end"]
    assert calls[0] == ("begin", 8)
    assert trainer.learning_rate() == 0.5


def test_training_without_labels_is_told(module_of):
    from elastic_runtime.worker.trainers.local import LocalTrainer

    trainer = LocalTrainer(module_of(model))
    trainer.build(spec()[0])
    with pytest.raises(ElasticError, match="in feed: ValueError: feed gave features without labels"):
        trainer.train_batch(data()[0])
