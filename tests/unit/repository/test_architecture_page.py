"""docs/architecture.md speaks of the code there is: its rooms, its files, its names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = ROOT / "elastic_runtime"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PLACES = [
    (file, name)
    for files, names in re.findall(r"^\| [^|]+ \| (`[^|]+`) \| (`[^|]+`) \|$", PAGE, re.MULTILINE)
    for file, name in zip(re.findall(r"`(.*?)`", files), re.findall(r"`(.*?)`", names), strict=True)
]


def test_every_room_is_told_and_no_other():
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert told == {package.parent.name for package in CODE.glob("*/__init__.py")}


def test_every_file_it_names_exists():
    named = re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", PAGE)
    assert len(named) > 30
    assert [path for path in named if not (CODE / path).exists() and not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("file", "name"), PLACES, ids=lambda part: part)
def test_what_is_to_be_found_there_is_there(file, name):
    assert re.search(rf"^ *(?:async )?(?:def|class) {name}\b", (CODE / file).read_text(), re.MULTILINE)
