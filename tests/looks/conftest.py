"""The browser of the tests of a module.

Where the machine has none and cannot get one, these tests are skipped and say why; where
`ELASTICDL_CLUSTER_TESTS` is `required`, they fail instead. It is installed before the first test, outside the
time of any.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime.errors import ElasticError
from tests.cluster.kit import requirements
from tests.looks import browser as looks
from tests.looks.browser import Browser

HERE = Path(__file__).parent
impossible = functools.cache(looks.why_not)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly or not any(HERE in item.path.parents for item in session.items):
        return
    if not impossible():
        with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            try:
                requirements.install(looks.PACKAGES)
            except ElasticError as error:
                print(f"looks: {error}")  # each test says that there is no browser, and the others can run


def pytest_runtest_setup() -> None:
    """Here and not in a fixture, so that all the skipped tests share one line of the summary."""
    if reason := impossible():
        looks.skip_or_fail(reason)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for all tests of a module, a new page for each: it costs something even where nobody uses it."""
    opened = Browser(tmp_path_factory.mktemp("browser"))
    try:
        yield opened
    finally:
        opened.close()
