"""Model modules of every age load, and what is wrong with one is said with the nearest right name."""

import sys

import pytest

from elastic_runtime.errors import ElasticError, InputError

pytestmark = pytest.mark.tensorflow


def load(*args, **kwargs):
    from elastic_runtime.model.module import load

    return load(*args, **kwargs)


def test_factory_gets_the_model_parameters(zoo):
    module = load(zoo("m.py"), "custom_model", model_params={"units": 3})
    assert module.create_model().output_shape == (None, 3)


def test_model_parameter_that_the_factory_lacks_names_the_nearest(zoo):
    with pytest.raises(InputError, match=r"takes no parameter 'unit'.*did you mean 'units'"):
        load(zoo("m.py"), model_params={"unit": 3})


def test_module_variable_is_a_model(zoo):
    module = load(zoo("m.py", "model = custom_model(4)\ndel custom_model"))
    assert module.create_model().output_shape == (None, 4)


def test_class_is_a_model(zoo):
    text = "class Tower(keras.Model):\n    def call(self, x): return x\ndel custom_model"
    assert type(load(zoo("m.py", text)).create_model()).__name__ == "Tower"
    assert type(load(zoo("m.py", text), "Tower").create_model()).__name__ == "Tower"


@pytest.mark.parametrize(
    ("function", "gets"),
    [
        ("dataset_fn(d): return [d]", "D"),
        ("dataset_fn(d, mode): return [d, mode]", "Dm"),
        ("dataset_fn(d, mode, metadata): return [d, mode, metadata]", "Dmx"),
        ("dataset_fn(*all): return all", "Dmx"),
    ],
)
def test_dataset_fn_of_any_age_is_a_feed(zoo, function, gets):
    module = load(zoo("m.py", f"def {function}\ndel feed"))
    assert "".join(module.feed("D", "m", "x")) == gets


def test_symbols_go_by_other_names_here_or_in_another_module(zoo):
    zoo("parts/losses.py", "def mine(labels, predictions): return 'mine'", rest="")
    path = zoo("a/m.py", "def my_feed(d, mode, metadata): return 'fed'")
    module = load(path, names={"feed": "my_feed", "loss": "parts.losses.mine"}, zoo=zoo.path)
    assert (module.feed(1, 2, 3), module.loss(1, 2)) == ("fed", "mine")


@pytest.mark.parametrize("symbol", ["custom_model", "feed", "loss", "optimizer"])
def test_missing_symbol_is_named_with_the_file_and_the_nearest(zoo, symbol):
    path = zoo("m.py", f"{symbol}s = {symbol}\ndel {symbol}")
    with pytest.raises(InputError, match=rf"m\.py: no {symbol} here \(did you mean '{symbol}s'\?; needed: "):
        load(path)


def test_metrics_are_only_needed_when_evaluated(zoo):
    module = load(zoo("m.py", "del eval_metrics_fn"))
    with pytest.raises(InputError, match="no eval_metrics_fn here"):
        module.create_metrics()


def test_a_symbol_that_is_no_function_is_refused(zoo):
    with pytest.raises(InputError, match=r"cannot use loss = 'mse'.*loss\(labels, predictions\)"):
        load(zoo("m.py", "loss = 'mse'"))


def test_old_order_of_arguments_is_refused_instead_of_training_on_the_wrong_thing(zoo):
    with pytest.raises(InputError, match="swap its parameters"):
        load(zoo("m.py", "def loss(output, labels): return 0"))
    with pytest.raises(InputError, match="eval_metrics_fn"):
        load(zoo("m.py", "def eval_metrics_fn(predictions, labels): return {}"))


def test_what_a_factory_returns_is_checked(zoo):
    with pytest.raises(ElasticError, match="optimizer must return a Optimizer, not str"):
        load(zoo("m.py", "def optimizer(): return 'sgd'")).create_optimizer()


def test_error_in_a_factory_is_the_users_and_shows_only_the_users_frames(zoo):
    from elastic_runtime.model.user_code import UserCodeError

    path = zoo("m.py", "def custom_model():\n    return keras.layers.Dense('many')(keras.Input((1,)))")
    with pytest.raises(UserCodeError, match=rf"{path}:\d+, in custom_model: ") as caught:
        load(path).create_model()
    assert "m.py" in caught.value.traceback_text
    assert "site-packages" not in caught.value.traceback_text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere_to_be_found", "needs the module nowhere_to_be_found.*requirements.txt"),
        ("from elasticdl.python.data import codec", "codec.*of the old package there are .*constants"),
        ("1 / 0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_module_that_cannot_be_run_says_why(zoo, text, said):
    with pytest.raises(ElasticError, match=said):
        load(zoo("m.py", text))
    assert "m" not in sys.modules


def test_files_of_a_zoo_import_each_other_and_equal_names_of_two_zoos_do_not_clash(zoo):
    text = """
        from shared.size import UNITS
        build = custom_model
        def custom_model():
            from shared.late import more
            return build(more(UNITS))
        """
    modules = []
    for name, units in (("one", 2), ("two", 5)):
        zoo(f"{name}/shared/size.py", f"UNITS = {units}", rest="")
        zoo(f"{name}/shared/late.py", f"def more(units): return units + {units}", rest="")
        modules.append(load(zoo(f"{name}/a/m.py", text)))
    assert [modules[i].create_model().output_shape[1] for i in (0, 1, 0)] == [4, 10, 4]


def test_a_model_file_does_not_hide_a_module_of_the_same_name(zoo):
    import queue

    load(zoo("queue.py"))
    assert sys.modules["queue"] is queue


def test_imports_of_the_old_system_resolve_while_a_module_is_loaded_and_only_then(zoo):
    text = """
        from elasticdl.python.common.constants import Mode
        from elasticdl.python.data.reader.recordio_reader import RecordIODataReader
        from elasticdl.python.elasticdl.callbacks import LearningRateScheduler
        from elasticdl.python.elasticdl.layers.embedding import Embedding
        from elasticdl.python.worker.prediction_outputs_processor import BasePredictionOutputsProcessor
        from elasticdl_preprocessing.layers.log_round import LogRound
        class PredictionOutputsProcessor(BasePredictionOutputsProcessor):
            def process(self, predictions, worker_id): return Mode.TRAINING
        def callbacks(): return [LearningRateScheduler(lambda version: 0.5)]
        """
    module = load(zoo("m.py", text))
    assert module.create_prediction_outputs_processor().process(None, 0) == "training"
    assert module.create_callbacks()[0].schedule(1) == 0.5
    assert "elasticdl" not in sys.modules


def test_learning_rate_scheduler_of_old_becomes_a_callback(zoo):
    module = load(zoo("m.py", "def learning_rate_scheduler(version): return 1 / (1 + version)"))
    (callback,) = module.create_callbacks()
    assert callback.schedule(3) == 0.25
