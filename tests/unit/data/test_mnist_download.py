"""MNIST from the web: what is kept is whole; whatever is wrong is one line that says what to do instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from elastic_runtime.cli.main import elasticdl
from elastic_runtime.data import download, mnist
from elastic_runtime.errors import InputError
from tests.unit.data import webs
from tests.unit.data.webs import web


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Where Keras would have it, for which another file stands in."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.delenv("MNIST_URL", raising=False)
    monkeypatch.setattr(mnist, "SHA256", webs.SHA256)
    return tmp_path / "keras" / "datasets" / "mnist.npz"


@pytest.fixture
def typed(tmp_path):
    """`elasticdl data mnist` as typed, with these options; the records of both parts."""

    def run(*options):
        command = ["data", "mnist", str(tmp_path / "out"), "--json", *options]
        result = CliRunner().invoke(elasticdl, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return [json.loads(line)["records"] for line in result.stdout.splitlines()], result.stderr

    return run


def test_it_is_downloaded_once_and_kept_where_keras_keeps_it(typed, kept, monkeypatch):
    with web() as server:
        monkeypatch.setattr(mnist, "URL", server.url)
        assert typed() == ([3, 2], f"downloading {server.url}\n")
        assert typed() == ([3, 2], "")
    assert server.asked == ["/mnist.npz"]
    assert kept.read_bytes() == webs.DIGITS
    assert os.listdir(kept.parent) == [kept.name]


def test_the_sample_and_a_file_that_is_there_ask_nobody(typed, tmp_path):
    (tmp_path / "mine.npz").write_bytes(webs.DIGITS)
    with web() as server:
        assert typed("--sample", f"--url={server.url}")[0] == [6000, 1000]
        assert typed(f"--source={tmp_path}/mine.npz", f"--url={server.url}")[0] == [3, 2]
    assert server.asked == []


def test_a_mirror_that_is_named_emptily_as_by_a_build_argument_is_none(typed, monkeypatch):
    with web() as server:
        monkeypatch.setattr(mnist, "URL", server.url)
        monkeypatch.setenv("MNIST_URL", "")
        assert typed()[0] == [3, 2]


def test_a_mirror_is_named_by_an_option_or_by_the_environment(typed, kept, monkeypatch):
    with web() as server:
        assert typed(f"--url={server.url}")[0] == [3, 2]
        kept.unlink()
        monkeypatch.setenv("MNIST_URL", server.url)
        assert typed()[0] == [3, 2]
    assert len(server.asked) == 2


@pytest.mark.parametrize("content", [b"", webs.DIGITS[:-1], b"another file"])
def test_what_is_kept_and_is_not_whole_is_downloaded_anew(typed, kept, content):
    kept.parent.mkdir(parents=True)
    kept.write_bytes(content)
    with web() as server:
        assert typed(f"--url={server.url}")[0] == [3, 2]
    assert kept.read_bytes() == webs.DIGITS


def test_where_nothing_can_be_kept_it_is_converted_all_the_same(typed, kept, tmp_path):
    (tmp_path / "keras").write_text("no folder")
    with web() as server:
        assert typed(f"--url={server.url}")[0] == [3, 2]
        assert typed(f"--url={server.url}")[0] == [3, 2]
    assert len(server.asked) == 2
    assert not list(tmp_path.rglob("*.npz"))


WRONG = {
    webs.another: "its checksum is not that of the file that is meant",
    webs.missing: "HTTP Error 404: Not Found",
    webs.cut: f"the connection was cut after {len(webs.DIGITS) // 2} of {len(webs.DIGITS)} bytes",
    webs.cut_in_a_piece: "IncompleteRead",
    webs.nothing_more: "timed out",
    webs.drops: "not all of it came within 0.5 s",
    webs.no_end: "it does not end",
}


@pytest.mark.parametrize("give", WRONG, ids=lambda give: give.__name__)
def test_what_goes_wrong_is_told_and_nothing_of_it_is_kept(typed, kept, tmp_path, monkeypatch, give):
    if give is webs.drops:
        monkeypatch.setattr(download, "SECONDS", 0.5)
    if give is webs.nothing_more:
        monkeypatch.setattr(download, "SILENT_SECONDS", 0.5)
    with web(give) as server, pytest.raises(InputError) as told:
        typed(f"--url={server.url}")
    assert told.value.where == server.url
    assert WRONG[give] in told.value.what
    assert "--sample" in told.value.remedy
    assert "--source" in told.value.remedy
    assert not list(kept.parent.iterdir())
    assert not (tmp_path / "out").exists()


def test_what_was_kept_before_stays_though_it_is_no_good(typed, kept):
    """It may be somebody's; only what is better takes its place."""
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"another file")
    with web(webs.cut) as server, pytest.raises(InputError):
        typed(f"--url={server.url}")
    assert kept.read_bytes() == b"another file"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/mnist.npz", "https://mnist.invalid/mnist.npz", "mnist.npz"]
)
def test_without_a_network_it_is_bad_input_in_one_line(tmp_path, url):
    command = [
        sys.executable,
        "-m",
        "elastic_runtime",
        "data",
        "mnist",
        str(tmp_path / "out"),
        f"--url={url}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    said, error = done.stderr.splitlines()
    assert said == f"downloading {url}"
    assert error.startswith(f"error: {url}: cannot be downloaded: ")
    assert "(--sample takes " in error


SCRIPT = Path(__file__).parents[3] / "scripts" / "gen_dataset.sh"
PROGRAM = f"""\
#!{sys.executable}
from elastic_runtime.cli.main import main
from elastic_runtime.data import mnist

mnist.SHA256 = "{webs.SHA256}"
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def generated(tmp_path, monkeypatch):
    """What the script makes of its second word: how many training images, and what it says.

    Of what takes seconds a line tells how far it is; on a busy machine that is the conversion, too.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "elasticdl").write_text(PROGRAM)
    (tmp_path / "bin" / "elasticdl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def run(url, *words):
        monkeypatch.setenv("MNIST_URL", url)
        done = subprocess.run(
            [SCRIPT, tmp_path / "data", *words], capture_output=True, text=True, check=True, timeout=240
        )
        where = ["elasticdl", "data", "inspect", str(tmp_path / "data" / "mnist" / "train"), "--json"]
        said = [line for line in done.stderr.splitlines() if not line.startswith("converting: ")]
        return json.loads(subprocess.check_output(where))["records"], said

    return run


@pytest.mark.parametrize("words", [(), ("yes",)])
def test_the_script_of_the_images_downloads_it(generated, words):
    with web() as server:
        assert generated(server.url, *words)[0] == 3


def test_the_script_takes_the_sample_without_trying_if_that_is_asked_for(generated):
    with web() as server:
        assert generated(server.url, "sample") == (6000, [])
    assert server.asked == []


def test_the_script_takes_the_sample_where_there_is_no_network_and_says_so(generated):
    records, said = generated("http://127.0.0.1:1/mnist.npz", "yes")
    assert records == 6000
    assert said[-1] == "gen_dataset: taking the 6 000 + 1 000 images that come with elasticdl instead"
