"""A layer's bytes come from the content of its folder and from nothing else."""

import gzip
import hashlib
import io
import os
import tarfile

import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.image.layer import pack


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "b.py").write_text("b")
    (folder / "a.sh").write_text("a")
    (folder / "a.sh").chmod(0o700)
    (folder / ("n" * 200)).touch()
    (folder / "äöü").touch()
    (folder / "link").symlink_to("sub/b.py")
    return folder


def packed(folder, file="layer"):
    layer = pack(folder, inside="/there", file=folder.with_name(file), said="a folder")
    content = b"".join(layer.blob.chunks())
    assert layer.blob.size == len(content)
    assert layer.blob.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert layer.diff_id == f"sha256:{hashlib.sha256(gzip.decompress(content)).hexdigest()}"
    return content


def entries(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {entry.name: entry for entry in archive}


def test_all_of_the_folder_is_in_it_and_nothing_from_below_shows_through(folder):
    found = entries(packed(folder))
    assert list(found)[:2] == ["there", "there/.wh..wh..opq"]
    assert set(found) == {"there", "there/.wh..wh..opq"} | {
        f"there/{path.relative_to(folder)}" for path in folder.rglob("*")
    }
    assert found["there/link"].linkname == "sub/b.py"


def test_anybody_may_read_it_and_nobody_owns_it(folder):
    found = entries(packed(folder))
    modes = {name: entry.mode for name, entry in found.items() if not entry.issym()}
    assert {name for name, mode in modes.items() if mode == 0o755} == {"there", "there/sub", "there/a.sh"}
    assert set(modes.values()) == {0o755, 0o644}
    assert {(e.uid, e.gid, e.uname, e.gname, e.mtime) for e in found.values()} == {(0, 0, "", "", 0)}


def test_the_same_content_makes_the_same_bytes(folder, tmp_path):
    first = packed(folder)
    os.utime(folder / "a.sh", (1, 1))
    (folder / "sub" / "b.py").chmod(0o640)
    (folder / "äöü").rename(folder / "other")  # to the end of the directory
    (folder / "other").rename(folder / "äöü")
    assert packed(folder, "another-name") == first


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "new").mkdir(),
        lambda folder: (folder / "sub" / "b.py").write_text("c"),
        lambda folder: (folder / "a.sh").chmod(0o600),
        lambda folder: (folder / "link").unlink(),
    ],
)
def test_another_content_makes_others(folder, change):
    first = packed(folder)
    change(folder)
    assert packed(folder) != first


def test_what_cannot_be_packed_is_told(folder, tmp_path):
    with pytest.raises(ElasticError, match=r"cannot be packed: .*Not a directory"):
        pack(folder, inside="/there", file=folder / "a.sh" / "layer", said="")
