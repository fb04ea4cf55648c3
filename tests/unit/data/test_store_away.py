"""A store that is away or overloaded for a moment is no verdict: the step that needs it may be run again."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest

from elastic_runtime.data import storage
from elastic_runtime.data.convert.rows import open_plain
from elastic_runtime.data.convert.staging import Staging
from elastic_runtime.data.readers.text import TextReader
from elastic_runtime.data.recordio import Writer
from elastic_runtime.data.recordio.index import Index
from elastic_runtime.data.trouble import may_pass
from elastic_runtime.errors import ElasticError, InputError, Unavailable
from elastic_runtime.master.prepare import find_sources
from elastic_runtime.spec.job import JobSpec

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "manifests" / "argo" / "elasticdl-convert.yaml"
MODEL = ROOT / "model_zoo" / "mnist" / "mnist_functional_api.py"


@contextmanager
def answering(status: int) -> Iterator[str]:
    """The address of a server that says nothing else."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Say where the S3 store is that this process, and those it starts, are to ask, once."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    def lies_at(address: str) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        fsspec.get_filesystem_class("s3").clear_instance_cache()

    yield lies_at
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def write() -> None:
    with Writer("s3://bucket/data-0") as writer:
        writer.write(b"1")


def read() -> None:
    with open_plain("s3://bucket/data.csv") as file:
        file.read()


def stage() -> None:
    with Staging("s3://bucket/data", ("",)):
        pass


def fill() -> None:
    with storage.folder_to_fill("s3://bucket/data") as folder:
        (folder / "a").touch()


def scan() -> None:
    reader = object.__new__(TextReader)
    reader._lines = {}
    reader._scanned("s3://bucket/data.txt")


USES = {
    "list": lambda: storage.list_files("s3://bucket/data"),
    "list several": lambda: storage.list_files("s3://bucket/a,s3://bucket/b"),
    "look into": lambda: storage.entries("s3://bucket/data"),
    "look up": lambda: storage.is_folder("s3://bucket/data"),
    "index": lambda: Index("s3://bucket/data-0"),
    "read": read,
    "scan": scan,
    "write": write,
    "stage": stage,
    "fill": fill,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_whatever_is_done_with_it_a_store_that_is_overloaded_is_no_verdict(store, use) -> None:
    with answering(503) as address:
        store(address)
        with pytest.raises(Unavailable, match=r"s3://bucket/.* just now: .*run it again"):
            use()


def test_a_store_that_is_not_there_is_no_verdict(store) -> None:
    with answering(503) as address:
        pass
    store(address)
    with pytest.raises(Unavailable, match="just now: Could not connect"):
        storage.list_files("s3://bucket/data")
    with pytest.raises(Unavailable, match="just now: Could not connect"):
        stage()


@pytest.mark.parametrize(("status", "said"), [(403, "cannot be listed: Forbidden"), (404, "no such file")])
def test_what_a_store_refuses_is_a_verdict(store, status: int, said: str) -> None:
    with answering(status) as address:
        store(address)
        with pytest.raises(InputError, match=said):
            storage.list_files("s3://bucket/data")


def test_who_has_nothing_that_opens_a_store_is_told_what_does(
    store: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store("http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"Unable to locate credentials.*`open_store\(task\)`"):
        storage.list_files("s3://bucket/data")


class OfGoogle(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (OfGoogle(503), True),
        (OfGoogle(429), True),
        (OfGoogle(401), False),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (OSError("certificate verify failed"), False),
        (PermissionError(), False),
        (OSError(28, "No space left on device"), False),
        (ValueError(), False),
    ],
)
def test_only_what_may_be_otherwise_in_a_moment_passes(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes


def test_the_conversion_step_ends_with_a_code_that_lets_it_be_run_again(store, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "elastic_runtime.steps", "convert", "--source=s3://bucket/data.csv"]
    with answering(503) as address:
        store(address)
        ended = subprocess.run(
            [*words, f"--dataset={tmp_path / 'data'}", f"--samples={tmp_path / 'page.md'}"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("error: s3://bucket/data.csv: cannot be looked up just now: Service Unavailable (")
    assert ended.returncode == Unavailable.exit_code
    final = re.findall(r"lastRetry.exitCode not in \[(.*)\]", TEMPLATE.read_text())[0]
    codes = [InputError.exit_code, ElasticError.exit_code, Unavailable.exit_code]
    assert [f"'{code}'" in final for code in codes] == [True, True, False]


def test_a_job_whose_data_is_away_when_it_begins_may_be_tried_again(store) -> None:
    with answering(503) as address:
        store(address)
        given = {"job_name": "j", "model_def": str(MODEL), "training_data": "s3://bucket/data"}
        spec = JobSpec.make(given, [])
        with pytest.raises(Unavailable):
            find_sources(spec)
