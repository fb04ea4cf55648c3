"""What the Dockerfiles promise of their arguments, by reading; `tests/cluster/test_images.py` builds them."""

import re
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[3] / "images"
ASKS_AN_INDEX = re.compile(r"-m pip (?:install|wheel) (?!.*--no-index)|horovod\.build ")


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.data"])
def test_every_stage_that_asks_an_index_asks_the_extra_one_too(name):
    """Not every builder lets a stage inherit arguments."""
    _, *stages = re.split(r"^(?=FROM )", (IMAGES / name).read_text(), flags=re.MULTILINE)
    before = [stage[: asks.start()] for stage in stages if (asks := ASKS_AN_INDEX.search(stage))]
    assert before
    for beginning in before:
        assert "ARG EXTRA_PYPI_INDEX\nARG PIP_EXTRA_INDEX_URL=${EXTRA_PYPI_INDEX}\n" in beginning


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.data"])
def test_every_stage_that_generates_data_knows_which_and_from_where(name):
    _, *stages = re.split(r"^(?=FROM )", (IMAGES / name).read_text(), flags=re.MULTILINE)
    before = [
        stage.partition("/gen_dataset.sh /data")[0] for stage in stages if "/gen_dataset.sh /data" in stage
    ]
    assert before
    for beginning in before:
        assert re.search(r"^ARG GEN_DATA(=yes)?\nARG MNIST_URL\n", beginning, re.MULTILINE)
