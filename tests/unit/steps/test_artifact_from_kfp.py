"""What KFP's server makes of the facts about an artifact, which went through its metadata store."""

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.steps.artifact import Folder, location

FROM_KFP = {"format": "RecordIO", "splits": {"struct": {"train": 6000.0, "test": 1000.0}}}


def test_a_part_of_a_dataset_is_found_by_its_name(tmp_path):
    assert location(Folder(str(tmp_path), FROM_KFP), "train") == f"{tmp_path}/train"


def test_an_unknown_part_is_told_the_nearest_one(tmp_path):
    with pytest.raises(InputError, match=r"no part 'tran'.*'train'"):
        location(Folder(str(tmp_path), FROM_KFP), "tran")


def test_a_part_may_be_called_as_kfp_calls_its_kind(tmp_path):
    data = Folder(str(tmp_path), {"splits": {"struct": 4, "test": 2}})
    assert location(data, "struct") == f"{tmp_path}/struct"
