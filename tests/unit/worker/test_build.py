"""A worker made from its specification: what the seed promises."""

import numpy as np
import pytest

from elastic_runtime.data.example import encode
from elastic_runtime.data.recordio import Writer
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.worker.build import build
from elastic_runtime.worker.failure import NotFoundHere, end_by

pytestmark = pytest.mark.tensorflow

MODEL = """
import keras, tensorflow as tf

def custom_model():
    x = keras.Input((4,))
    return keras.Model(x, keras.layers.Dense(2)(x))

def feed(dataset, mode, metadata):
    columns = {"x": tf.io.FixedLenFeature([4], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    return dataset.map(lambda r: tf.io.parse_single_example(r, columns)).map(lambda e: (e["x"], e["y"]))

def loss(labels, predictions):
    return keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)

def optimizer():
    return keras.optimizers.SGD(0.1)
"""


def test_workers_of_one_seed_begin_with_one_model_and_of_another_with_another(tmp_path):
    (tmp_path / "m.py").write_text(MODEL)
    with Writer(str(tmp_path / "data-00000")) as writer:
        writer.write(encode({"x": np.ones(4, np.float32), "y": 1}))

    def weights(seed: int, worker_id: int) -> np.ndarray:
        options = {"job_name": "j", "model_def": str(tmp_path / "m.py"), "seed": str(seed)}
        options |= {"training_data": str(tmp_path / "data-00000"), "run_dir": str(tmp_path / "run")}
        compute = build(
            JobSpec.make(options, []), worker=f"w{worker_id}", worker_id=worker_id, incarnation="i", token="t"
        )
        try:
            return compute.trainer.model.get_weights()[0]
        finally:
            compute.close()

    first = weights(seed=0, worker_id=0)
    np.testing.assert_array_equal(weights(seed=0, worker_id=1), first)
    assert not np.array_equal(weights(seed=1, worker_id=0), first)


def test_data_that_the_master_has_found_and_this_worker_cannot_is_no_fault_of_the_jobs(tmp_path):
    """Another worker, elsewhere, may find it: this one's node lacks what the others have."""
    (tmp_path / "m.py").write_text(MODEL)
    options = {"job_name": "j", "model_def": str(tmp_path / "m.py"), "run_dir": str(tmp_path / "run")}
    spec = JobSpec.make(options | {"training_data": str(tmp_path / "not-mounted")}, [])
    with pytest.raises(NotFoundHere, match="not-mounted: there is no such file or folder") as caught:
        build(spec, worker="w0", worker_id=0, incarnation="i", token="t")
    assert not end_by(caught.value).fatal
