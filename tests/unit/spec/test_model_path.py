"""Dotted symbol, folder or file: each finds the module, and a wrong one names what is near."""

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.spec.model_path import resolve


@pytest.fixture(autouse=True)
def zoo(tmp_path, monkeypatch):
    for name in (
        "mnist/mnist_functional_api.py",
        "mnist_subclass/mnist_subclass.py",
        "single.py",
        "a/b/deep.py",
    ):
        path = tmp_path / "model_zoo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise SystemExit('a model is not imported to find it')")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("model_zoo", "model_def", "file", "symbol"),
    [
        (
            "model_zoo",
            "mnist.mnist_functional_api.custom_model",
            "mnist/mnist_functional_api.py",
            "custom_model",
        ),
        ("./model_zoo/", "mnist.mnist_functional_api", "mnist/mnist_functional_api.py", None),
        ("model_zoo", "single.Model", "single.py", "Model"),
        ("model_zoo", "single", "single.py", None),
        ("model_zoo", "a.b.deep.custom_model", "a/b/deep.py", "custom_model"),
        ("", "model_zoo/mnist_subclass", "mnist_subclass/mnist_subclass.py", None),
        ("", "model_zoo/mnist_subclass/", "mnist_subclass/mnist_subclass.py", None),
        ("model_zoo", "mnist_subclass", "mnist_subclass/mnist_subclass.py", None),
        ("", "model_zoo/mnist/mnist_functional_api.py", "mnist/mnist_functional_api.py", None),
        ("", "model_zoo/mnist/mnist_functional_api", "mnist/mnist_functional_api.py", None),
        ("model_zoo", "mnist/mnist_functional_api.py", "mnist/mnist_functional_api.py", None),
        ("model_zoo", "single.py", "single.py", None),
    ],
)
def test_every_spelling_finds_its_module(tmp_path, model_zoo, model_def, file, symbol):
    found = resolve(model_zoo, model_def)
    assert found.file.resolve() == tmp_path / "model_zoo" / file
    assert found.symbol == symbol


def test_a_folder_on_disk_wins_over_the_dotted_reading(tmp_path):
    (tmp_path / "x.y").mkdir()
    (tmp_path / "x.y" / "x.y.py").touch()
    assert resolve("model_zoo", "x.y").file.resolve() == tmp_path / "x.y" / "x.y.py"


@pytest.mark.parametrize(
    ("model_zoo", "model_def", "told"),
    [
        (
            "model_zoo",
            "mnist.mnist_functional.custom_model",
            "there is no model_zoo/mnist/mnist_functional.py nor "
            "model_zoo/mnist/mnist_functional/custom_model.py (the nearest is "
            "model_zoo/mnist/mnist_functional_api.py)",
        ),
        ("", "model_zoo/mnist", "there is no model_zoo/mnist/mnist.py (the nearest is"),
        ("", "model_zoo/mnist/mnst.py", "there is no model_zoo/mnist/mnst.py (the nearest is"),
        ("model_zo", "mnist.x.y", "there is no folder model_zo (did you mean model_zoo?)"),
        ("/nowhere/zoo", "mnist.x.y", "there is no folder /nowhere/zoo"),
    ],
)
def test_a_wrong_name_tells_what_was_looked_for_and_what_is_near(model_zoo, model_def, told):
    with pytest.raises(InputError) as error:
        resolve(model_zoo, model_def)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
