"""The layers and callbacks that model modules import."""

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def layers():
    from elastic_runtime import layers

    return layers


def values(tensor):
    return np.asarray(tensor).tolist()


def test_numbers_become_ids_in_range_or_the_default(layers):
    assert values(layers.RoundIdentity(5)(np.array([0.4, 1.6, 4.6, -3.0]))) == [0, 2, 0, 0]
    assert values(layers.LogRound(4, default_value=1, base=2)(np.array([1.0, 8.0, 5.0, 0.0, 1000.0]))) == [
        0,
        3,
        2,
        1,
        1,
    ]


def test_text_becomes_numbers(layers):
    import tensorflow as tf

    assert values(layers.ToNumber("int32", -1)(tf.constant(["7", "", "3"]))) == [7, -1, 3]
    assert values(layers.ToNumber("float32", 0.5)(tf.constant(["1.5", ""]))) == [1.5, 0.5]


def test_ids_are_shifted_and_put_together_dense_ragged_or_sparse(layers):
    import tensorflow as tf

    join = layers.ConcatenateWithOffset([0, 10])
    a, b = tf.constant([[1, 2]]), tf.constant([[3]])
    assert values(join([a, b])) == [[1, 2, 13]]
    assert join([tf.RaggedTensor.from_tensor(a), tf.RaggedTensor.from_tensor(b)]).to_list() == [[1, 2, 13]]
    assert values(join([tf.sparse.from_dense(a), tf.sparse.from_dense(b)]).values) == [1, 2, 13]
    with pytest.raises(ValueError, match="1 inputs for 2 offsets"):
        join([a])


@pytest.mark.parametrize(("combiner", "expected"), [("sum", 3), ("mean", 1.5), ("sqrtn", 3 / 2**0.5)])
def test_embeddings_of_a_row_are_combined_dense_or_sparse(layers, combiner, expected):
    import tensorflow as tf

    layer = layers.Embedding(2, input_dim=3, combiner=combiner)
    dense = layer(tf.constant([[1, 2]]))
    layer.embeddings.assign([[9.0, 9.0], [1.0, 1.0], [2.0, 2.0]])
    sparse = tf.SparseTensor([[0, 0], [0, 1]], tf.constant([1, 2], tf.int64), [2, 2])
    assert dense.shape == (1, 2)
    np.testing.assert_allclose(layer(tf.constant([[1, 2]])), [[expected] * 2], rtol=1e-6)
    np.testing.assert_allclose(layer(sparse), [[expected] * 2, [0, 0]], rtol=1e-6)


def test_embedding_without_combiner_is_keras_own_so_that_it_loads_anywhere(layers):
    import keras

    assert type(layers.Embedding(4, input_dim=10)) is keras.layers.Embedding
    with pytest.raises(ValueError, match="input_dim"):
        layers.Embedding(4)


def test_schedule_must_return_a_number(layers):
    import keras

    callback = layers.LearningRateScheduler(lambda version: "fast")
    callback.set_model(keras.Sequential())
    with pytest.raises(TypeError, match="schedule\\(3\\) gave 'fast'"):
        callback.on_train_batch_begin(3)


def test_exporter_writes_where_the_job_says(layers, tmp_path):
    import keras

    exporter = layers.SavedModelExporter()
    exporter.set_params({"saved_model_path": str(tmp_path / "out")})
    exporter.set_model(keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]))
    exporter.on_train_end()
    assert (tmp_path / "out" / "saved_model.pb").is_file()
