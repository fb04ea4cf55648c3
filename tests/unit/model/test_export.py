"""An exported model is loaded by plain Keras and plain TensorFlow in a process that has none of our code."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elastic_runtime.errors import ElasticError

pytestmark = pytest.mark.tensorflow

ZOO = Path(__file__).parents[3] / "model_zoo"
LOAD = """
import json, sys
sys.path = [place for place in sys.path if place not in ("", {repository!r})]
import importlib.abc
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith(("elastic_runtime", "elasticdl", "mnist")):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import keras, numpy as np, tensorflow as tf
images = np.load({images!r})
for folder in {folders!r}:
    plain = keras.models.load_model(folder + "/model.keras")(images, training=False)
    served = tf.saved_model.load(folder + "/saved_model").signatures["serving_default"]
    (name,) = served.structured_input_signature[1]
    (answer,) = served(**{{name: tf.constant(images)}}).values()
    print(json.dumps([name, np.asarray(plain).tolist(), answer.numpy().tolist()]))
"""


@pytest.fixture(scope="module")
def trained():
    """A model of each kind, away from its initial values, with what it says of two images."""
    import keras

    from elastic_runtime.model.module import load
    from elastic_runtime.model.network import Network

    def make(file):
        import tensorflow as tf

        network = Network(load(ZOO / "mnist" / file))
        network.build((tf.TensorSpec([None, 28, 28]), tf.TensorSpec([None], tf.int64)))
        for weight in network.model.weights:
            weight.assign(weight + 0.01)
        return network.model

    keras.utils.set_random_seed(1)
    return {file: make(file) for file in ("mnist_functional_api.py", "mnist_subclass.py")}


def features():
    import tensorflow as tf

    return tf.TensorSpec([None, 28, 28])


def test_functional_and_subclassed_models_load_without_any_code_of_ours(trained, tmp_path):
    from elastic_runtime.model.export import export

    images = np.random.default_rng(0).uniform(size=(2, 28, 28)).astype(np.float32)
    np.save(tmp_path / "images.npy", images)
    folders = [str(tmp_path / file) for file in trained]
    for folder, model in zip(folders, trained.values(), strict=True):
        export(model, folder, features())
    program = LOAD.format(repository=str(ZOO.parent), images=str(tmp_path / "images.npy"), folders=folders)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in lines] == ["image", "features"]
    for model, (_, plain, served) in zip(trained.values(), lines, strict=True):
        ours = np.asarray(model(images, training=False))
        np.testing.assert_allclose(plain, ours, atol=1e-4)
        np.testing.assert_allclose(served, ours, atol=1e-4)


def test_an_export_replaces_the_one_before_and_leaves_nothing_else(trained, tmp_path):
    from elastic_runtime.model.export import export

    for _ in range(2):
        (tmp_path / ".export-of-one-that-was-killed" / "saved_model").mkdir(parents=True)
        export(trained["mnist_functional_api.py"], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.keras", "saved_model"]


def test_subclassed_model_that_has_no_functional_form_is_exported_all_the_same(tmp_path, caplog):
    import keras
    import tensorflow as tf

    class Raw(keras.Model):
        def call(self, inputs):
            return tf.sqrt(inputs)

    from elastic_runtime.model.export import export

    model = Raw()
    model(tf.ones([1, 3]))
    export(model, tmp_path, tf.TensorSpec([None, 3]))
    assert "only be loaded where these classes are" in caplog.text
    served = tf.saved_model.load(tmp_path / "saved_model").serve(tf.constant([[4.0, 9.0, 1.0]]))
    assert served.numpy().tolist() == [[2, 3, 1]]


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(trained, tmp_path):
    from elastic_runtime.model.export import export

    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ElasticError, match="could not be exported"):
        export(trained["mnist_functional_api.py"], tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
