"""An image's name, taken apart as Docker does it."""

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.image.registry.reference import Reference

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("python", ("docker.io", "library/python", "latest")),
        ("python:3.11-slim", ("docker.io", "library/python", "3.11-slim")),
        ("team/model", ("docker.io", "team/model", "latest")),
        ("docker.io/team/model:1", ("docker.io", "team/model", "1")),
        ("docker.io/python:1", ("docker.io", "library/python", "1")),
        ("localhost/model", ("localhost", "model", "latest")),
        ("localhost:5000/a/b/c:v1", ("localhost:5000", "a/b/c", "v1")),
        ("[::1]:5000/model", ("[::1]:5000", "model", "latest")),
        (f"registry.example/model@{DIGEST}", ("registry.example", "model", DIGEST)),
        (f"registry.example:5000/model:1@{DIGEST}", ("registry.example:5000", "model", DIGEST)),
    ],
)
def test_a_name_is_taken_apart_as_docker_does_it(name, parts):
    found = Reference.parse(name)
    assert (found.registry, found.repository, found.version) == parts
    assert Reference.parse(str(found)).version == found.version


@pytest.mark.parametrize(
    "name",
    [
        "",
        "https://registry.example/model",
        "registry.example/Model",
        "registry.example/",
        "registry.example/model:",
        "registry.example/model:a/b",
        "registry.example/model@sha256:1",
        "registry.example/model@",
        "registry.example/../model",
        "registry.example//model",
        "registry.example/model?x",
        "registry.example:port/model",
        "user@registry.example/model",
        "a b",
        "model\n",
    ],
)
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InputError, match="is no name of an image"):
        Reference.parse(name)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("localhost:5000/m", True),
        ("127.0.0.1/m", True),
        ("[::1]:5000/m", True),
        ("localhost.example/m", False),
        ("127.0.0.1.example/m", False),
        ("10.0.0.1:5000/m", False),
        ("m", False),
    ],
)
def test_only_this_machine_is_this_machine(name, here):
    assert Reference.parse(name).is_here is here
