"""The conversion step: what it writes, what it says of it, and how it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastic_runtime.data.example import encode
from elastic_runtime.data.recordio import Writer
from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.steps import Folder
from elastic_runtime.steps.artifact import location
from elastic_runtime.steps.convert import convert
from elastic_runtime.steps.samples import Part, samples_page


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    file.write_text("age,name\n" + "".join(f"{age},n|{age}`<b>\n" for age in range(100)))
    return file


def converted(tmp_path: Path, **given: Any) -> tuple[Folder, str, int]:
    dataset, samples = Folder(str(tmp_path / "dataset")), Folder(str(tmp_path / "samples"))
    records = convert(dataset=dataset, samples=samples, **given)
    return dataset, Path(samples.path).read_text(), records


def test_a_table_becomes_records_and_a_page(tmp_path: Path, table: Path) -> None:
    dataset, page, records = converted(tmp_path, source=str(table), records_per_file=40)
    assert records == 100
    assert dataset.metadata == {"format": "RecordIO", "records": 100}
    assert len(list(Path(dataset.path).glob("data-*"))) == 3
    assert "| all | 100 | 3 |" in page
    assert "| `age` | int x 1 | `0` | `1` | `2` | `3` |" in page
    assert "| bytes x 1 | `n¦0'<b>` | `n¦1'<b>` |" in page, "what a user's data hold must not break the page"


def test_a_split_is_counted_part_by_part_and_read_by_its_name(tmp_path: Path, table: Path) -> None:
    dataset, _, _ = converted(tmp_path, source=str(table), split="train=0.8,test=0.2")
    parts = dataset.metadata["splits"]
    assert sum(parts.values()) == 100
    assert parts["train"] > parts["test"] > 0
    assert location(dataset, "test") == f"{dataset.path}/test"
    with pytest.raises(InputError, match="the data are in parts: train, test"):
        location(dataset)
    with pytest.raises(InputError, match=r"there is no part 'tset'.*did you mean 'test'"):
        location(dataset, "tset")


def test_a_dataset_that_is_an_artifact_already_is_converted_like_any_other(
    tmp_path: Path, table: Path
) -> None:
    _, _, records = converted(tmp_path, source_dataset=Folder(str(table)))
    assert records == 100


def test_the_result_goes_where_the_user_wants_it(tmp_path: Path, table: Path) -> None:
    dataset, _, _ = converted(tmp_path, source=str(table), output=str(tmp_path / "mine"))
    assert dataset.uri == str(tmp_path / "mine")
    assert location(dataset) == dataset.uri
    assert not Path(dataset.path).exists()


def test_bad_rows_that_are_skipped_are_told(tmp_path: Path, table: Path) -> None:
    with table.open("a") as file:
        file.write("old,x\n")
    with pytest.raises(ElasticError, match="'old' is no int"):
        converted(tmp_path, source=str(table), schema="age:int")
    _, page, records = converted(tmp_path, source=str(table), schema="age:int", on_error="skip")
    assert records == 100
    assert "1 bad row left out" in page


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing says what to convert"),
        ({"source": "a", "source_dataset": Folder("b")}, "both source and source_dataset"),
        ({"source": "/nowhere.csv"}, "no such file or folder"),
        ({"format": "mnist", "schema": "a:int"}, "the format mnist has a schema of its own"),
        ({"source": "x", "format": "cvs"}, "unknown format 'cvs'.*did you mean 'csv'"),
    ],
)
def test_what_cannot_be_converted_is_refused(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        converted(tmp_path, **given)


def page_of(tmp_path: Path, *records: bytes, pictures: dict[str, Any] | None = None) -> str:
    with Writer(str(tmp_path / "data-00000")) as writer:
        for record in records:
            writer.write(record)
    return samples_page("here", [Part("", str(tmp_path), len(records), 1)], 0, pictures)


def test_a_picture_is_drawn_as_it_looks(tmp_path: Path) -> None:
    picture = np.zeros((20, 20), np.float32)
    picture[:, 10:] = 255
    page = page_of(tmp_path, encode({"image": picture, "label": 3}), pictures={"image": (20, 20, 1)})
    drawn = [line for line in page.splitlines() if "█" in line]
    assert set(drawn) == {" " * 10 + "█" * 10}
    assert len(drawn) == 10
    assert "label 3" in page


@pytest.mark.parametrize(
    "shape", [(8, 8, 1), (28, 28, 1), (32, 32, 3), (101, 101, 4), (480, 640, 3), (900, 9, 1), (9, 900, 1)]
)
def test_pictures_of_all_sizes_fit(tmp_path: Path, shape: tuple[int, ...]) -> None:
    records = [encode({"image": np.random.default_rng(1).random(shape)})] * 6
    block = re.findall(r"```\n(.*?)```", page_of(tmp_path, *records, pictures={"image": shape}), re.DOTALL)[0]
    assert all(len(line) <= 58 for line in block.splitlines())
    assert len(block.splitlines()) <= 3 * 16
    assert "█" in block


def test_records_of_one_shade_of_no_shape_and_of_no_example_have_a_page_too(tmp_path: Path) -> None:
    black = encode({"image": np.zeros(784, np.float32)})
    assert "░" not in page_of(tmp_path, black, pictures={"image": (28, 28, 1)})
    assert "no `tf.train.Example`" in page_of(tmp_path, b"\xff\xff")
    assert "0 records" in samples_page("here", [Part("", str(tmp_path), 0, 0)], 0)


def half_black(shape: tuple[int, ...]) -> Any:
    """The right half of it is white."""
    picture = np.zeros(shape, np.uint8)
    picture[:, shape[1] // 2 :] = 255
    return picture


def halves(page: str) -> set[str]:
    return {line for line in page.splitlines() if line.endswith("█")}


@pytest.mark.parametrize(
    ("given", "lines", "kept"),
    [({}, 11, "480x640x3"), ({"image_size": "32x48", "image_mode": "L"}, 10, "32x48x1")],
)
def test_a_photograph_is_drawn_in_its_own_proportions(
    tmp_path: Path, given: dict[str, str], lines: int, kept: str
) -> None:
    from PIL import Image

    (tmp_path / "photos" / "cat").mkdir(parents=True)
    Image.fromarray(half_black((480, 640, 3))).save(tmp_path / "photos" / "cat" / "1.png")
    dataset, page, _ = converted(tmp_path, source=str(tmp_path / "photos"), format="images", **given)
    assert {(line[:13], line[15:]) for line in halves(page)} == {(" " * 13, "█" * 13)}
    assert sum(line.endswith("█") for line in page.splitlines()) == lines
    assert dataset.metadata["shapes"] == {"image": kept}


def test_of_arrays_what_has_the_form_of_a_picture_is_drawn_and_long_rows_are_not(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz", x=half_black((10, 28))[None], flat=np.ones((1, 784)), pair=np.ones((1, 2, 9))
    )
    dataset, page, _ = converted(tmp_path, source=str(tmp_path / "a.npz"))
    assert halves(page) == {" " * 14 + "█" * 14}
    assert dataset.metadata["shapes"] == {"x": "10x28x1"}
    np.savez(tmp_path / "b.npz", flat=np.ones((1, 784)))
    dataset, page, _ = converted(tmp_path, source=str(tmp_path / "b.npz"))
    assert "784 values" in page
    assert "shapes" not in dataset.metadata


def test_digits_are_drawn(tmp_path: Path) -> None:
    dataset, page, _ = converted(tmp_path, format="mnist")
    assert dataset.metadata["shapes"] == {"image": "28x28x1"}
    assert page.count("█") > 100
