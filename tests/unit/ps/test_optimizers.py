"""Optimizers of the parameter server are Keras' own."""

import numpy as np
import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.ps import optimizers
from elastic_runtime.ps.optimizers import Update

CONFIGS = [
    {"name": "SGD"},
    {"name": "SGD", "weight_decay": 0.01},
    {"name": "SGD", "momentum": 0.9},
    {"name": "SGD", "momentum": 0.8, "nesterov": True},
    {"name": "Adagrad"},
    {"name": "Adagrad", "initial_accumulator_value": 0.0, "epsilon": 1e-3},
    {"name": "Adam"},
    {"name": "Adam", "beta_1": 0.7, "beta_2": 0.9, "epsilon": 1e-4, "weight_decay": 0.01},
    {"name": "Adam", "amsgrad": True},
    {"name": "AdamW"},
    {"name": "RMSprop"},
    {"name": "RMSprop", "momentum": 0.9},
    {"name": "RMSprop", "centered": True},
    {"name": "RMSprop", "rho": 0.8, "momentum": 0.5, "centered": True, "weight_decay": 0.01},
]


@pytest.mark.tensorflow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: "-".join(map(str, c.values())))
def test_fifty_steps_equal_keras(config):
    import keras

    options = {key: value for key, value in config.items() if key != "name"}
    theirs = getattr(keras.optimizers, config["name"])(learning_rate=0.1, **options)
    random = np.random.default_rng(1)
    start = random.normal(size=1000).astype(np.float32)
    variable = keras.Variable(start)
    theirs.build([variable])
    ours = optimizers.from_config(theirs.get_config() | {"name": config["name"]})
    weights = start.copy()
    slots = {name: np.full(1000, value, np.float32) for name, value in ours.slots.items()}
    for step in range(1, 51):
        gradient = random.normal(size=1000).astype(np.float32)
        theirs.learning_rate = rate = 0.01 / step
        theirs.apply([gradient], [variable])
        ours.apply(Update(step, rate), weights, gradient, slots)
    np.testing.assert_allclose(weights, variable.numpy(), rtol=1e-6, atol=1e-6)
    assert np.abs(weights - start).max() > 1e-3


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: "-".join(map(str, c.values())))
def test_scale_makes_a_sum_of_gradients_their_mean(config):
    optimizer = optimizers.from_config(config)
    gradient = np.linspace(-1, 1, 100, dtype=np.float32)
    results = []
    for given, scale in ((gradient, 1.0), (gradient * 4, 0.25)):
        weights = np.ones(100, np.float32)
        slots = {name: np.full(100, value, np.float32) for name, value in optimizer.slots.items()}
        optimizer.apply(Update(1, 0.1, scale), weights, given, slots)
        results.append(weights)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"name": "Adamm"}, "did you mean 'Adam'"),
        ({"name": "Ftrl"}, "Local"),
        ({}, "no optimizer 'None'"),
        ({"name": "Adam", "clipnorm": 1.0}, "clipnorm=1.0.*clip gradients"),
        ({"name": "SGD", "use_ema": True}, "use_ema"),
        ({"name": "SGD", "gradient_accumulation_steps": 2}, "grads_to_wait"),
        ({"name": "SGD", "momentun": 0.9}, "did you mean 'momentum'"),
        ({"name": "SGD", "momentum": "0.9"}, r"momentum='0.9'\): must be a number"),
        ({"name": "SGD", "momentum": float("nan")}, "must be a number"),
        ({"name": "Adam", "amsgrad": 1}, "true or false"),
    ],
)
def test_what_a_server_cannot_do_is_refused_by_name(config, said):
    with pytest.raises(InputError, match=said):
        optimizers.from_config(config)


def test_neutral_keras_options_are_accepted():
    config = {
        "name": "adam",
        "learning_rate": 0.001,
        "weight_decay": None,
        "clipnorm": None,
        "use_ema": False,
    }
    assert optimizers.from_config(config | {"ema_momentum": 0.99}) == optimizers.Adam()
