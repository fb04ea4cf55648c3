from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.observe import log

LINE = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] \[(\w+)\] \[[\w<>.-]+:\d+:[\w<>]+\] (.*)"
)  # what the tutorials' scripts grep

IMPORTS = """
import logging, sys, warnings
from pathlib import Path
from elastic_runtime.observe.log import set_up
"""


def lines(code: str, *args: str, stderr: Path | None = None) -> list[str]:
    """What a process that ran `code` after setting up its log wrote to standard error."""
    command = [sys.executable, "-c", f"{IMPORTS}\n{code}", *args]
    if stderr is None:
        return subprocess.run(command, check=True, capture_output=True, text=True).stderr.splitlines()
    with stderr.open("a") as file:
        subprocess.run(command, check=True, stderr=file)
    return stderr.read_text().splitlines()


def test_line_has_time_level_place_and_message() -> None:
    (line,) = lines("set_up()\nlogging.getLogger('elastic_runtime.x').info('Loss = %s, steps = %d', 0.5, 2)")
    match = LINE.fullmatch(line)
    assert match is not None
    assert match.groups() == ("INFO", "Loss = 0.5, steps = 2")


def test_setting_up_again_changes_the_level_and_doubles_nothing() -> None:
    written = lines("set_up(); set_up('warning')\nlogging.info('quiet')\nlogging.warning('loud')")
    assert [line.split("] ")[-1] for line in written] == ["loud"]


def test_file_gets_the_same_lines_as_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "worker.log"
    written = lines("set_up(file=Path(sys.argv[1]))\nlogging.info('once')", str(path))
    assert path.read_text().splitlines() == written
    assert len(written) == 1


def test_file_that_standard_error_goes_to_already_gets_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    assert len(lines("set_up(file=Path(sys.argv[1]))\nlogging.info('once')", str(path), stderr=path)) == 1


def test_lines_of_one_message_stay_together_when_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shared.log"
    code = (
        "from elastic_runtime.observe.log import set_up\nimport logging, sys\nset_up()\n"
        "for _ in range(200): logging.info('begin\\n' + sys.argv[1] * 60 + '\\nend')"
    )
    with path.open("a") as file:
        writers = [subprocess.Popen([sys.executable, "-c", code, name], stderr=file) for name in "abc"]
        assert [writer.wait() for writer in writers] == [0, 0, 0]
    written = path.read_text().splitlines()
    assert len(written) == 3 * 200 * 3
    for first, middle, last in zip(written[::3], written[1::3], written[2::3], strict=True):
        assert first.endswith("begin")
        assert middle in {"a" * 60, "b" * 60, "c" * 60}
        assert last == "end"


def test_other_packages_speak_from_warning_on_and_the_users_model_like_ours() -> None:
    code = (
        "set_up('DEBUG')\nlogging.getLogger('urllib3.x').info('no')\nlogging.getLogger('tensorflow').warning('yes')\n"
        "logging.getLogger('my_model').debug('mine')\nwarnings.warn('old')"
    )
    text = "\n".join(lines(code))
    assert "] no" not in text
    assert "] yes" in text
    assert "] mine" in text
    assert "UserWarning: old" in text


def test_text_that_no_encoding_knows_is_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines("set_up(file=Path(sys.argv[1]))\nlogging.info('\\udcff is no text')", str(path))
    assert "\\udcff is no text" in path.read_text()


def test_unknown_level_names_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"--log_level: unknown log level 'WARN_' \(did you mean 'WARNING'\?\)"
    ):
        log.set_up("WARN_")
