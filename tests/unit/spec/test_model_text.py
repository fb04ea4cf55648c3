"""What a model module defines is seen from its text; a misspelt name is refused with the nearest."""

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.model_text import check_symbols, has_own_reader, names_in

MODULE = """
import keras.layers, numpy as np
from somewhere import loss as my_loss, schedule

def feed(dataset, mode, metadata):
    inside = 1

class Net(keras.Model):
    attribute = 2

a, (b, *c) = 1, (2, 3)
optimizer: object = None
if a:
    def custom_model(): ...
else:
    custom_model = None
try:
    import fast
except ImportError:
    fast = None
for turn in range(3):
    pass
with open("x") as file:
    pass
(walrus := 5)
"""


@pytest.fixture
def zoo(tmp_path):
    (tmp_path / "net.py").write_text(MODULE)
    return tmp_path


def spec_of(zoo, *more, model_def="net.custom_model"):
    options = [f"--model_zoo={zoo}", f"--model_def={model_def}", "--training_data=x", "--job_name=j", *more]
    return parse("train", options).spec


def test_names_are_found_wherever_they_are_bound_at_the_top(zoo):
    assert names_in(zoo / "net.py") == {
        *("keras", "np", "my_loss", "schedule", "feed", "Net", "a", "b", "c", "optimizer", "custom_model"),
        *("fast", "turn", "file", "walrus"),
    }


def test_right_names_pass(zoo):
    check_symbols(spec_of(zoo, "--loss=my_loss", "--feed=feed"))


@pytest.mark.parametrize(
    ("more", "model_def", "where", "near"),
    [
        (["--feed=fed"], "net.custom_model", "--feed", "'feed'"),
        (["--loss=my_los"], "net.custom_model", "--loss", "'my_loss'"),
        ([], "net.custom_modell", "--model_def", "'custom_model'"),
        (["--eval_metrics_fn=inside"], "net.custom_model", "--eval_metrics_fn", "known:"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(zoo, more, model_def, where, near):
    with pytest.raises(InputError) as caught:
        check_symbols(spec_of(zoo, *more, model_def=model_def))
    assert caught.value.where == where
    assert near in caught.value.remedy


@pytest.mark.parametrize("line", ["from other import *", "globals().update(x=1)", "exec('feed = 1')"])
def test_a_module_that_may_bind_any_name_is_left_to_its_worker(zoo, line):
    (zoo / "net.py").write_text(f"{MODULE}\n{line}\n")
    check_symbols(spec_of(zoo, "--feed=anything"))


def test_names_of_other_modules_are_not_looked_for_here(zoo):
    check_symbols(spec_of(zoo, "--loss=losses.mine"))


@pytest.mark.parametrize("text", ["def broken(:\n", "x = 1\0"])
def test_a_module_that_cannot_be_read_is_bad_input_with_its_place(zoo, text):
    (zoo / "net.py").write_text(text)
    with pytest.raises(InputError, match=r"net\.py"):
        check_symbols(spec_of(zoo))


def test_a_reader_of_the_modules_own_is_found(zoo):
    assert not has_own_reader(spec_of(zoo))
    (zoo / "net.py").write_text(f"{MODULE}\ndef custom_data_reader(origin, **kwargs): ...\n")
    assert has_own_reader(spec_of(zoo))
