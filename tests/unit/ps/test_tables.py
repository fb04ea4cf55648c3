"""Embedding tables: rows by id, over any number of servers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ps_worlds import client, push, servers, store

from elastic_runtime.errors import InputError
from elastic_runtime.ps import checkpoint, optimizers
from elastic_runtime.ps.client import PSRefused, Reason
from elastic_runtime.ps.model import Model
from elastic_runtime.ps.optimizers import Update
from elastic_runtime.ps.rows import RowGradients, TableSpec
from elastic_runtime.ps.tables import Table
from elastic_runtime.rpc.layout import Layout, Variable
from elastic_runtime.rpc.ps_pb2 import Verdict

LAYOUT = Layout((Variable("w", (2,)),))
SPEC = TableSpec("users", 4, "uniform", 0.05)
EMPTY = np.zeros(0, np.float32)
OPTIMIZERS = ["SGD", "Adagrad", "Adam", "AdamW", "RMSprop"]


def ids(*values):
    return np.array(values, np.int64)


def begin(worker, optimizer="Adam", **table):
    spec = TableSpec(**({"name": "users", "dimension": 4} | table))
    worker.initialize(LAYOUT, np.zeros(2, np.float32), EMPTY, {"name": optimizer}, seed=7, tables=[spec])


def step(worker, version, wanted, value, **options):
    gradients = np.full((wanted.size, 4), value, np.float32)
    return worker.push(
        np.zeros(2, np.float32),
        EMPTY,
        version=version,
        learning_rate=0.1,
        rows={"users": (wanted, gradients)},
        **options,
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sparse_result_equals_dense_result(name):
    optimizer = optimizers.from_config({"name": name})
    table, wanted = Table(SPEC, 1, optimizer.slots), ids(5, -3, 2**62, 0)
    dense = table.pull(wanted).reshape(-1)
    slots = {slot: np.full(16, value, np.float32) for slot, value in optimizer.slots.items()}
    random = np.random.default_rng(0)
    for number in range(1, 11):
        gradient = random.normal(size=(4, 4)).astype(np.float32)
        table.apply(optimizer, Update(number, 0.1), wanted, gradient.copy())
        optimizer.apply(Update(number, 0.1), dense, gradient.reshape(-1), slots)
    np.testing.assert_array_equal(table.pull(wanted).reshape(-1), dense)
    assert np.isfinite(dense).all()


def test_gradients_of_equal_ids_are_summed():
    optimizer = optimizers.from_config({"name": "Adagrad"})
    apart, together = (Table(SPEC, 1, optimizer.slots) for _ in range(2))
    apart.apply(optimizer, Update(1, 0.1), ids(3, 9, 3, 3), np.ones((4, 4), np.float32))
    summed = np.array([[3.0] * 4, [1.0] * 4], np.float32)
    together.apply(optimizer, Update(1, 0.1), ids(3, 9), summed)
    np.testing.assert_array_equal(apart.pull(ids(3, 9)), together.pull(ids(3, 9)))


@pytest.mark.parametrize("initializer", ["uniform", "normal"])
def test_first_values_depend_on_seed_table_and_id_alone(initializer):
    spec = TableSpec("t", 8, initializer, 0.05)
    many = np.arange(20_000, dtype=np.int64)
    values = Table(spec, 1, {}).pull(many)
    shuffled = np.random.default_rng(0).permutation(many)
    touched = Table(spec, 1, {})
    touched.apply(optimizers.SGD(), Update(1, 0.0), shuffled, np.zeros((20_000, 8), np.float32))
    np.testing.assert_array_equal(touched.pull(many), values)
    assert len(np.unique(values, axis=0)) == 20_000
    assert abs(values.mean()) < 1e-3
    assert abs(values.std() - (0.05 / np.sqrt(3) if initializer == "uniform" else 0.05)) < 1e-3
    assert np.abs(values).max() <= (0.05 if initializer == "uniform" else 0.4)
    for other in (Table(spec, 2, {}), Table(TableSpec("u", 8, initializer, 0.05), 1, {})):
        assert (other.pull(many) != values).any(axis=1).all()


@pytest.mark.parametrize(("initializer", "value"), [("zeros", 0.0), ("ones", 1.0), ("constant", 0.05)])
def test_constant_initializers(initializer, value):
    table = Table(TableSpec("t", 3, initializer, 0.05), 1, {})
    assert (table.pull(ids(1, 2)) == np.float32(value)).all()


def test_unknown_initializer_is_refused_by_name():
    with pytest.raises(InputError, match="did you mean 'uniform'"):
        TableSpec("t", 3, "unifrom")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20), max_size=50), max_size=8))
def test_table_is_a_mapping_from_id_to_row(batches):
    table, expected = Table(TableSpec("t", 2, "zeros"), 1, {}), {}
    for batch in batches:
        wanted = np.array(batch, np.int64)
        table.apply(optimizers.SGD(), Update(1, 1.0), wanted, np.full((len(batch), 2), -1, np.float32))
        for one in batch:
            expected[one] = expected.get(one, 0) + 1
        everything = np.array(list(expected), np.int64)
        assert table.count == len(expected)
        assert table.pull(everything)[:, 0].tolist() == [expected[one] for one in everything.tolist()]


@pytest.mark.parametrize("count", [1, 3])
def test_rows_travel_in_order_over_all_servers_and_learn_with_their_push(count):
    with servers(count) as (_, at), client(at) as worker:
        begin(worker, "SGD", initializer="constant", scale=1.0)
        wanted = ids(7, 3, 11, 3, 2)
        assert (worker.pull_rows("users", wanted) == 1).all()
        assert step(worker, 0, wanted, 5.0).accepted
        assert worker.pull_rows("users", ids(2, 3, 4))[:, 0].tolist() == [0.5, 0.0, 1.0]
        assert worker.pull_rows("users", ids()).shape == (0, 4)


def test_synchronous_rows_are_the_mean_over_workers_and_repeated_pushes_count_once():
    model = store(weights=1, state=0).model
    held = store(grads_to_wait=2)
    held.hold(
        Model(model.layout, model.config, *_zeros(), specs=[TableSpec("t", 1, "zeros")]), version=0, era=1
    )
    held.set_senders(1, "ab", now=0)
    sent = [_with_rows("a", [1, 2], 1.0), _with_rows("b", [2, 3], 3.0)]
    for one in [*sent, *sent]:
        held.push(one, now=0)
    assert held.model.tables["t"].pull(ids(1, 2, 3))[:, 0].tolist() == [-0.5, -2.0, -1.5]


def _zeros():
    return np.zeros(1, np.float32), np.zeros(0, np.float32)


def _with_rows(worker, wanted, value, table="t", dimension=1):
    values = np.full((len(wanted), dimension), value, np.float32)
    plain = push(worker, weights=1, state=0)
    return type(plain)(
        **{
            **{name: getattr(plain, name) for name in plain.__slots__},
            "rows": [RowGradients(table, np.array(wanted, np.int64), values)],
        }
    )


@pytest.mark.parametrize("options", [{"table": "nope"}, {"dimension": 2}])
def test_rows_that_do_not_fit_are_refused_and_nothing_is_applied(options):
    held = store(weights=1, state=0)
    model = held.model
    held.hold(Model(model.layout, model.config, *_zeros(), specs=[TableSpec("t", 1)]), version=0, era=1)
    assert held.push(_with_rows("a", [1], 1.0, **options), now=0).verdict == Verdict.MISFIT
    assert (held.version, held.model.weights[0]) == (0, 0)


def test_unknown_table_is_refused_on_the_wire():
    with servers() as (_, at), client(at) as worker:
        begin(worker)
        worker._dimensions["other"] = 4
        with pytest.raises(PSRefused, match="no table 'other'; known: users") as caught:
            worker.pull_rows("other", ids(1))
        assert caught.value.reason is Reason.MISFIT
        gradients = np.ones((1, 4), np.float32)
        refused = worker.push(
            np.zeros(2, np.float32), EMPTY, version=0, learning_rate=1.0, rows={"other": (ids(1), gradients)}
        )
        assert refused.reason is Reason.MISFIT


def test_snapshot_shows_rows_as_they_were():
    with servers(2, evaluation_steps=2) as (_, at), client(at) as worker:
        begin(worker, "SGD", initializer="zeros")
        for version in range(3):
            step(worker, version, ids(1, 2, 30 + version), -10.0)
        assert worker.pull_rows("users", ids(1, 31, 32, 99), snapshot=2)[:, 0].tolist() == [
            2.0,
            1.0,
            0.0,
            0.0,
        ]
        assert worker.pull_rows("users", ids(1, 31, 32, 99))[:, 0].tolist() == [3.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(("writers", "readers"), [(1, 1), (1, 2), (3, 2)])
def test_checkpoint_carries_rows_and_slots_to_any_number_of_servers(tmp_path, writers, readers):
    growing, final = tmp_path / ".version-2.new", tmp_path / "version-2"
    growing.mkdir()
    random = np.random.default_rng(0)
    batches = [random.integers(0, 500, 200) for _ in range(3)]
    everything = np.arange(600, dtype=np.int64)
    with servers(writers) as (_, at), client(at) as worker:
        begin(worker, "Adam")
        for version in range(2):
            step(worker, version, batches[version], 1.0)
        worker.save(0, str(growing))
        step(worker, 2, batches[2], 1.0)
        wanted = worker.pull_rows("users", everything)
    checkpoint.finish(growing, final, 2, {})
    whole = checkpoint.read(final).tables["users"]
    assert set(whole.ids.tolist()) == set(np.concatenate(batches[:2]).tolist())
    with servers(readers) as (_, at), client(at) as worker:
        worker.restore(str(final), era=2)
        begin(worker, "Adam")
        assert step(worker, 2, batches[2], 1.0).accepted
        np.testing.assert_array_equal(worker.pull_rows("users", everything), wanted)
