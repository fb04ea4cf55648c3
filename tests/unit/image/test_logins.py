"""Whose login is used for which image, wherever Docker, Podman or a mounted secret keeps it."""

import base64
import json

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.image.registry.logins import login
from elastic_runtime.image.registry.reference import Reference


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def keep(file, **auths):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"auths": auths}))


def entry(user, password="p:w"):
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def user(name):
    found = login(Reference.parse(name))
    return found and found.user


@pytest.mark.parametrize(
    ("key", "image"),
    [
        ("registry.example", "registry.example/team/model"),
        ("https://registry.example", "registry.example/team/model"),
        ("https://registry.example/v2/", "registry.example/team/model"),
        ("registry.example:5000", "registry.example:5000/model"),
        ("https://index.docker.io/v1/", "python:3.11"),
        ("docker.io", "team/model"),
        ("registry.example/team", "registry.example/team/model"),
    ],
)
def test_a_login_is_found_under_every_name_it_is_kept_by(home, key, image):
    keep(home / ".docker" / "config.json", **{key: entry("me")})
    found = login(Reference.parse(image))
    assert (found.user, found.password) == ("me", "p:w")
    assert base64.b64decode(found.basic.removeprefix("Basic ")) == b"me:p:w"


@pytest.mark.parametrize("image", ["registry.example:5000/model", "other.example/model", "model"])
def test_another_registry_is_shown_nothing(home, image):
    keep(home / ".docker" / "config.json", **{"registry.example": entry("me")})
    assert login(Reference.parse(image)) is None


def test_a_login_for_the_very_folder_goes_first(home):
    keep(
        home / ".docker" / "config.json",
        **{"registry.example": entry("all"), "registry.example/team": entry("team")},
    )
    assert user("registry.example/team/model") == "team"
    assert user("registry.example/teams/model") == "all"


@pytest.mark.parametrize(
    ("variable", "value", "file"),
    [
        ("DOCKER_CONFIG", "secret", "secret/config.json"),
        ("DOCKER_CONFIG", "secret", "secret/.dockerconfigjson"),
        ("REGISTRY_AUTH_FILE", "auth.json", "auth.json"),
        ("XDG_RUNTIME_DIR", "run", "run/containers/auth.json"),
    ],
)
def test_every_place_for_logins_is_known(home, monkeypatch, variable, value, file):
    monkeypatch.setenv(variable, str(home / value))
    keep(home / file, **{"registry.example": entry("me")})
    assert user("registry.example/model") == "me"


def test_no_password_is_ever_shown(home):
    keep(home / ".docker" / "config.json", **{"registry.example": entry("me", "secret")})
    assert "secret" not in repr(login(Reference.parse("registry.example/model")))


def test_a_token_may_stand_for_a_password(home):
    keep(home / ".docker" / "config.json", **{"registry.example": {**entry("0"), "identitytoken": "t"}})
    assert login(Reference.parse("registry.example/model")).token == "t"


@pytest.mark.parametrize(
    "content", ["", "[]", '{"auths": 3}', '{"auths": {"registry.example": {"auth": "%"}}}']
)
def test_a_file_that_holds_no_logins_is_named(home, content):
    file = home / ".docker" / "config.json"
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(InputError, match=f"^{file}: is no file of logins"):
        login(Reference.parse("registry.example/model"))


@pytest.fixture
def keeper(home, monkeypatch):
    """A program that keeps logins."""

    def write(script, settings):
        program = home / "bin" / "docker-credential-keeper"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nread registry\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))
        (home / ".docker").mkdir()
        (home / ".docker" / "config.json").write_text(json.dumps(settings))

    return write


ANSWER = """[ "$1" = get ] && echo '{"Username": "'$registry'", "Secret": "s"}'"""


@pytest.mark.parametrize(
    "settings", [{"credsStore": "keeper"}, {"credHelpers": {"registry.example": "keeper"}}]
)
def test_a_program_that_keeps_logins_is_asked(keeper, settings):
    keeper(ANSWER, settings)
    assert user("registry.example/model") == "registry.example"


def test_it_is_asked_for_docker_hub_by_the_name_docker_uses(keeper):
    keeper(ANSWER, {"credsStore": "keeper"})
    assert user("python:3.11") == "https://index.docker.io/v1/"


def test_it_may_have_a_token(keeper):
    keeper("""echo '{"Username": "<token>", "Secret": "t"}'""", {"credsStore": "keeper"})
    assert login(Reference.parse("registry.example/model")).token == "t"


def test_it_may_know_nothing(keeper):
    keeper("echo credentials not found in native keychain; exit 1", {"credsStore": "keeper"})
    assert login(Reference.parse("registry.example/model")) is None


def test_one_that_is_not_there_is_named(keeper):
    keeper("", {"credsStore": "nobody"})
    with pytest.raises(InputError, match="names docker-credential-nobody, which cannot be run"):
        login(Reference.parse("registry.example/model"))
