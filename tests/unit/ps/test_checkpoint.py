"""Checkpoints: complete or absent, read back by anybody, and never taken for what they are not."""

import json
import pathlib

import numpy as np
import pytest
from ps_worlds import layout

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps import checkpoint
from elastic_runtime.ps.checkpoint import PartState
from elastic_runtime.rpc.layout import part

LAYOUT = layout(1001, 7)


def state(index=0, parts=1, *, version=3, **changes):
    """Part of a model whose values tell their own place."""
    start, end = part(1001, index, parts)
    low, high = part(7, index, parts)
    weights = np.arange(start, end, dtype=np.float32)
    facts = {
        "layout": LAYOUT,
        "optimizer": {"name": "Adam", "beta_1": 0.8},
        "version": version,
        "weights": weights,
        "state": np.arange(low, high, dtype=np.float32) - 50,
        "slots": {"momentum": weights + 1, "velocity": weights + 2},
        "era": 4,
        "step": 17,
    }
    return PartState(**(facts | changes))


def save(folder, *, version=3, parts=2, ledger=None):
    growing = folder / f".version-{version}.new"
    growing.mkdir(parents=True)
    for index in range(parts):
        checkpoint.write_part(growing, index, parts, state(index, parts, version=version))
    checkpoint.finish(growing, folder / f"version-{version}", version, ledger or {"epoch": 1})
    return folder / f"version-{version}"


def test_all_of_it_is_read_back(tmp_path):
    whole = checkpoint.read(save(tmp_path, parts=3, ledger={"done": [[0, 128]]}))
    wanted = state()
    np.testing.assert_array_equal(whole.weights, wanted.weights)
    np.testing.assert_array_equal(whole.state, wanted.state)
    np.testing.assert_array_equal(whole.slots["velocity"], wanted.slots["velocity"])
    assert (whole.version, whole.era, whole.step, whole.optimizer) == (3, 4, 17, wanted.optimizer)
    assert whole.layout == LAYOUT
    assert whole.ledger == {"done": [[0, 128]]}


@pytest.mark.parametrize("writers", [1, 2, 5])
@pytest.mark.parametrize("readers", [1, 3, 8])
def test_parts_are_cut_anew_for_another_number_of_readers(tmp_path, writers, readers):
    folder = save(tmp_path, parts=writers)
    for index in range(readers):
        found, wanted = checkpoint.read_part(folder, index, readers), state(index, readers)
        np.testing.assert_array_equal(found.weights, wanted.weights)
        np.testing.assert_array_equal(found.state, wanted.state)
        np.testing.assert_array_equal(found.slots["momentum"], wanted.slots["momentum"])


def test_same_version_replaces_what_was_there(tmp_path):
    save(tmp_path, ledger={"run": 1})
    folder = save(tmp_path, ledger={"run": 2})
    assert checkpoint.read(folder).ledger == {"run": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["version-3"]


def test_checkpoint_of_missing_or_mixed_parts_is_not_finished(tmp_path):
    growing = tmp_path / ".version-3.new"
    growing.mkdir()
    with pytest.raises(ElasticError, match="not all parts"):
        checkpoint.finish(growing, tmp_path / "version-3", 3, {})
    checkpoint.write_part(growing, 0, 2, state(0, 2))
    with pytest.raises(ElasticError, match="not all parts"):
        checkpoint.finish(growing, tmp_path / "version-3", 3, {})
    checkpoint.write_part(growing, 1, 2, state(1, 2, version=4))
    with pytest.raises(ElasticError, match=r"versions \[3, 4\]"):
        checkpoint.finish(growing, tmp_path / "version-3", 3, {})
    assert checkpoint.newest(tmp_path) is None


def test_newest_passes_over_what_is_not_whole_and_says_why(tmp_path, caplog):
    good = save(tmp_path, version=9)
    damaged, partial, empty = (save(tmp_path, version=version) for version in (10, 11, 12))
    (tmp_path / "version-x").mkdir()
    (tmp_path / ".version-13.new").mkdir()
    file = damaged / "variables-1-of-2.ckpt"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    (partial / "variables-0-of-2.ckpt").unlink()
    (empty / "checkpoint.json").unlink()
    assert checkpoint.newest(tmp_path) == good
    said = "\n".join(caplog.messages)
    assert "variables-1-of-2.ckpt: is damaged: wrong checksum" in said
    assert "variables-0-of-2.ckpt: cannot be read" in said or "No such file" in said
    assert "version-12" in said
    assert checkpoint.newest(tmp_path / "nowhere") is None


def test_no_flipped_or_missing_byte_goes_unnoticed(tmp_path):
    folder = save(tmp_path, parts=1)
    file = folder / "variables-0-of-1.ckpt"
    good = file.read_bytes()
    places = [*range(0, len(good), 97), *range(60), *range(len(good) - 8, len(good))]
    for place in places:
        flipped = bytearray(good)
        flipped[place] ^= 0x10
        for bad in (bytes(flipped), good[:place]):
            file.write_bytes(bad)
            with pytest.raises(ElasticError, match=r"variables-0-of-1\.ckpt"):
                checkpoint.read(folder)
    file.write_bytes(good)
    assert checkpoint.read(folder).version == 3


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"format": 9}', b'{"format": 1, "files": {"../x": {}}}']
)
@pytest.mark.parametrize("name", ["checkpoint.json", "ledger.json"])
def test_damaged_json_is_named(tmp_path, name, content):
    folder = save(tmp_path)
    (folder / name).write_bytes(content)
    if name == "ledger.json" and isinstance(_json(content), dict):
        assert checkpoint.read(folder).ledger == json.loads(content)
        return
    with pytest.raises(ElasticError, match=name):
        checkpoint.read(folder)


def _json(content):
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_prune_keeps_the_newest_and_zero_keeps_all(tmp_path):
    for version in (2, 10, 9):
        save(tmp_path, version=version)
    checkpoint.prune(tmp_path, 0, upto=10)
    assert len(list(tmp_path.iterdir())) == 3
    checkpoint.prune(tmp_path, 2, upto=10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["version-10", "version-9"]
    checkpoint.prune(tmp_path, 1, upto=10)
    assert [path.name for path in tmp_path.iterdir()] == ["version-10"]


def test_prune_never_deletes_the_one_just_saved_for_one_of_a_course_that_was_given_up(tmp_path):
    """Its master was lost before it was on record, and the next went back behind it."""
    for version in (50, 100, 60):
        save(tmp_path, version=version)
    checkpoint.prune(tmp_path, 1, upto=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["version-100", "version-60"]


def test_what_is_beyond_a_version_goes_but_for_that_of_other_runs(tmp_path):
    for version, run in ((50, "a"), (60, "b"), (70, "a")):
        finish(tmp_path, version, run)
    checkpoint.remove_beyond(tmp_path, 50, run="a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["version-50", "version-60"]


def test_what_an_interrupted_writer_left_goes_and_what_it_was_replacing_comes_back(tmp_path):
    folder = save(tmp_path)
    folder.rename(tmp_path / ".version-3.replaced")
    (tmp_path / ".version-4.abc").mkdir()
    (tmp_path / ".version-2.pruned").mkdir()
    (tmp_path / "mine").mkdir()
    checkpoint.remove_stale(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "version-3"]
    assert checkpoint.newest(tmp_path) == folder


def test_full_disk_is_told_and_leaves_no_file(tmp_path):
    (tmp_path / ".variables-0-of-1.ckpt.part").symlink_to("/dev/full")
    with pytest.raises(ElasticError, match=r"No space left.*free space"):
        checkpoint.write_part(tmp_path, 0, 1, state())
    assert not list(tmp_path.iterdir())


def test_no_folder_is_no_checkpoint():
    with pytest.raises(ElasticError, match=r"/no/where/checkpoint\.json"):
        checkpoint.read(pathlib.Path("/no/where"))


def finish(folder, version, run):
    growing = folder / f".version-{version}.new"
    growing.mkdir(parents=True)
    checkpoint.write_part(growing, 0, 1, state(version=version))
    checkpoint.finish(growing, folder / f"version-{version}", version, {}, run=run)


def test_runs_that_share_a_folder_neither_go_back_to_nor_prune_each_others(tmp_path):
    for version, run in ((1, "a"), (2, "b"), (3, "a"), (4, "b")):
        finish(tmp_path, version, run)
    assert checkpoint.newest(tmp_path, run="a") == tmp_path / "version-3"
    assert checkpoint.newest(tmp_path, run="b", upto=3) == tmp_path / "version-2"
    assert checkpoint.newest(tmp_path) == tmp_path / "version-4"
    checkpoint.prune(tmp_path, 1, upto=9, run="a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["version-2", "version-3", "version-4"]


def test_a_checkpoint_of_another_run_is_replaced_aloud(tmp_path, caplog):
    finish(tmp_path, 1, "a")
    finish(tmp_path, 1, "b")
    assert checkpoint.newest(tmp_path, run="a") is None
    assert checkpoint.newest(tmp_path, run="b") == tmp_path / "version-1"
    assert "it is replaced" in caplog.text
