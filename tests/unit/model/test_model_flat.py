"""A model's variables, gradients and slots as flat buffers."""

import numpy as np
import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps.optimizers import from_config
from elastic_runtime.rpc.layout import Variable

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def keras():
    import keras

    return keras


def model_of(keras):
    keras.utils.clear_session()
    layers = [keras.Input((3,)), keras.layers.Dense(2), keras.layers.BatchNormalization()]
    return keras.Sequential(layers)


def flat_of(model):
    from elastic_runtime.model.flat import FlatModel

    return FlatModel(model)


def test_layout_names_weights_and_state_in_order(keras):
    layout = flat_of(model_of(keras)).layout
    assert layout.weights[0] == Variable("sequential/dense/kernel", (3, 2))
    assert [v.name.split("/")[-1] for v in layout.weights] == ["kernel", "bias", "gamma", "beta"]
    assert [v.name.split("/")[-1] for v in layout.state] == ["moving_mean", "moving_variance"]


def test_what_is_assigned_is_read_back(keras):
    flat = flat_of(model_of(keras))
    weights, state = np.arange(12, dtype=np.float32), np.arange(4, dtype=np.float32)
    flat.assign(weights, state)
    np.testing.assert_array_equal(flat.read().weights, weights)
    np.testing.assert_array_equal(flat.read().state, state)
    np.testing.assert_array_equal(flat.weights[0].numpy(), [[0, 1], [2, 3], [4, 5]])


def test_buffer_of_another_size_is_refused(keras):
    with pytest.raises(ValueError, match="13"):
        flat_of(model_of(keras)).assign(np.zeros(13, np.float32), np.zeros(4, np.float32))


def test_layers_of_one_name_get_names_of_their_own(keras):
    a, b = (keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, name="d")]) for _ in range(2))
    whole = keras.Sequential([keras.Input((1,)), *a.layers])
    whole.add(keras.layers.Rescaling(1.0))
    whole._layers.extend(b.layers)
    names = [v.name for v in flat_of(whole).layout.weights]
    assert len(set(names)) == len(names) == 4


def test_whole_numbers_of_the_state_stay_whole(keras):
    counting = keras.layers.Normalization()  # keeps mean, variance and how many it has seen
    flat = flat_of(keras.Sequential([keras.Input((1,)), counting]))
    flat.assign(np.empty(0, np.float32), np.array([0.5, 2.5, 7.6], np.float32))
    assert [np.asarray(v).item() for v in counting.weights] == [0.5, 2.5, 8]


def test_gradients_are_flattened_whatever_their_form(keras):
    import tensorflow as tf

    ids = keras.Input((2,), dtype="int64")
    vectors = keras.layers.Embedding(4, 2)(ids)
    model = keras.Model(ids, [vectors, keras.layers.Dense(1)(vectors)])
    flat = flat_of(model)

    @tf.function
    def gradient(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(ids)[0] * tf.constant([1.0, 2.0]))
        return flat.flatten(tape.gradient(loss, model.trainable_weights))

    found = gradient(tf.constant([[1, 1], [3, 0]], tf.int64)).numpy()
    np.testing.assert_array_equal(found, [1, 2, 2, 4, 0, 0, 1, 2, 0, 0, 0])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9}),
        ("Adam", {}),
        ("Adam", {"amsgrad": True}),
        ("AdamW", {}),
        ("Adagrad", {}),
        ("RMSprop", {"momentum": 0.5, "centered": True}),
    ],
)
def test_slots_have_the_names_and_first_values_that_parameter_servers_use(keras, name, options):
    from elastic_runtime.model.flat import Slots
    from elastic_runtime.model.optimizer import optimizer_config

    optimizer, flat = getattr(keras.optimizers, name)(**options), flat_of(model_of(keras))
    optimizer.build(flat.weights)
    served = from_config(optimizer_config(optimizer)).slots
    slots = Slots(optimizer, flat.weights).read()
    assert {slot: values.tolist() for slot, values in slots.items()} == {
        slot: pytest.approx([first] * 12) for slot, first in served.items()
    }


def test_slots_that_are_missing_are_named(keras):
    from elastic_runtime.model.flat import Slots

    optimizer, flat = keras.optimizers.Adam(), flat_of(model_of(keras))
    optimizer.build(flat.weights)
    with pytest.raises(ElasticError, match="no velocity of the optimizer"):
        Slots(optimizer, flat.weights).assign({"momentum": np.zeros(12, np.float32)})


def test_learning_rate_at_a_version(keras):
    from elastic_runtime.model.optimizer import LearningRate

    schedule = keras.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5)
    assert LearningRate(keras.optimizers.SGD(schedule)).at(20) == pytest.approx(0.25)
    optimizer = keras.optimizers.SGD(0.5)
    rate = LearningRate(optimizer)
    optimizer.learning_rate = 0.125
    assert rate.at(7) == 0.125
