"""A registry, a front before it, an image to build on, and a user's models."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from registries import Front, front, registry
from small_images import BASE, put_image


def pytest_runtest_setup() -> None:
    if not shutil.which("docker-registry"):
        if os.environ.get("ELASTICDL_CLUSTER_TESTS") == "required":
            pytest.fail("docker-registry is not installed", pytrace=False)
        pytest.skip("docker-registry is not installed")


@pytest.fixture(autouse=True)
def no_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry, and in it the base image."""
    with registry(tmp_path_factory.mktemp("registry")) as address:
        put_image(f"{address}/{BASE}")
        yield address


@pytest.fixture
def before(server: str) -> Iterator[Front]:
    """A front before that registry."""
    with front(server) as made:
        yield made


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A user's models, which nobody but them may read, and what is no part of them."""
    model = tmp_path / "zoo" / "mnist" / "model.py"
    model.parent.mkdir(parents=True, mode=0o700)
    model.write_text("def custom_model(): ...\n")
    model.chmod(0o600)
    (tmp_path / "zoo" / "__pycache__").mkdir()
    (tmp_path / "zoo" / "__pycache__" / "model.pyc").touch()
    (tmp_path / "zoo" / "nowhere").symlink_to("/nowhere")
    return tmp_path / "zoo"
