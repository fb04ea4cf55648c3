"""Which builder is taken, and what users are told when it fails.

Stand-ins answer to the builders' names: they say what the real ones were seen to say. The real buildah is in
`tests/cluster/test_images.py`.
"""

import pytest

from elastic_runtime.cli.main import main
from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.image.builder import Builder, find_builder, registry, repository

DIGEST = "sha256:" + "a1" * 32


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Writes stand-ins, which are then all that PATH holds."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def write(**scripts):
        for name, script in scripts.items():
            program = tmp_path / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)

    return write


def failing(words):
    return f"echo '{words}' >&2; exit 1"


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"docker": "exit 0", "podman": "exit 0", "buildah": "exit 0"}, "docker"),
        ({"docker": "exit 1", "podman": "exit 0", "buildah": "exit 0"}, "podman"),
        ({"docker": "exit 1", "podman": "exit 125", "buildah": "exit 0"}, "buildah"),
        ({"buildah": "exit 0"}, "buildah"),
    ],
)
def test_the_first_that_works_is_taken(programs, there, taken):
    programs(**there)
    assert find_builder() == Builder(taken)


def test_a_docker_client_without_an_engine_does_not_work(programs):
    programs(docker=failing("Cannot connect to the Docker daemon at unix:///var/run/docker.sock."))
    with pytest.raises(InputError, match=r"docker does not work here \(start Docker, or install buildah"):
        find_builder()


def test_no_builder_at_all_is_one_error_with_a_remedy(programs):
    with pytest.raises(
        InputError, match=r"neither docker nor podman nor buildah \(.*apt-get install buildah"
    ):
        find_builder()


def test_a_push_by_docker_tells_the_digest(programs):
    programs(docker=f"echo 'v1: digest: {DIGEST} size: 1234'")
    assert Builder("docker").push("host:5000/user/elasticdl:v1") == f"host:5000/user/elasticdl@{DIGEST}"


@pytest.mark.parametrize("program", ["podman", "buildah"])
def test_a_push_by_the_others_leaves_the_digest_in_a_file(programs, program):
    programs(**{program: f'[ "$2" = --digestfile ] && echo {DIGEST} >"$3"'})
    assert Builder(program).push("elasticdl:v1") == f"elasticdl@{DIGEST}"


@pytest.mark.parametrize(
    "words",
    [
        "denied: requested access to the resource is denied",
        "unauthorized: authentication required",
        "no basic auth credentials",
    ],
)
def test_a_push_that_is_refused_names_the_login(programs, words):
    programs(docker=failing(words))
    with pytest.raises(ElasticError) as refused:
        Builder("docker").push("reg.docker.com/user/elasticdl:v1")
    assert refused.value.remedy == "docker login reg.docker.com"
    assert words in refused.value.what


def test_a_registry_without_tls_is_told_as_such(programs):
    programs(docker=failing("http: server gave HTTP response to HTTPS client"))
    with pytest.raises(ElasticError, match=r"10\.0\.0\.1:5000 speaks plain HTTP") as refused:
        Builder("docker").push("10.0.0.1:5000/elasticdl:v1")
    assert "insecure-registries" in refused.value.remedy


@pytest.mark.parametrize(
    "words",
    [
        "ERROR: pull access denied for nowhere, repository does not exist or may require docker login",
        "ERROR: nowhere:1: failed to resolve source metadata for docker.io/library/nowhere:1: not found",
        'error creating build container: short-name "nowhere:1" did not resolve to an alias',
    ],
)
def test_a_base_image_that_cannot_be_had_is_named(programs, tmp_path, words):
    programs(docker=failing(words))
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM nowhere:1\n")
    with pytest.raises(ElasticError, match=r"a base image cannot be had, nowhere:1: .*nowhere"):
        Builder("docker").build(dockerfile=dockerfile, context=tmp_path, tag="mine")


def test_a_failed_build_ends_with_its_last_words(programs, tmp_path, capfd):
    lines = "; ".join(f"echo line {number}" for number in range(20))
    programs(docker=f"{lines}; exit 3")
    with pytest.raises(ElasticError) as failed:
        Builder("docker").build(dockerfile=tmp_path / "Dockerfile", context=tmp_path, tag="mine")
    assert "line 19" in failed.value.what
    assert "line 0" not in failed.value.what
    assert "line 0" in capfd.readouterr().err  # the rest was shown as it came


def test_zoo_build_without_a_dockerfile_names_zoo_init(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["zoo", "build", "--image=elasticdl:mine", str(tmp_path)])
    assert end.value.code == 2
    assert f"there is no {tmp_path}/Dockerfile (elasticdl zoo init writes one)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tag", "where", "name"),
    [
        ("elasticdl", "docker.io", "elasticdl"),
        ("elasticdl:v1", "docker.io", "elasticdl"),
        ("user/elasticdl:v1", "docker.io", "user/elasticdl"),
        ("reg.docker.com/user/elasticdl:v1", "reg.docker.com", "reg.docker.com/user/elasticdl"),
        ("10.0.0.1:5000/elasticdl", "10.0.0.1:5000", "10.0.0.1:5000/elasticdl"),
        ("localhost/elasticdl:v1", "localhost", "localhost/elasticdl"),
    ],
)
def test_a_registrys_port_is_not_taken_for_a_tag(tag, where, name):
    assert (registry(tag), repository(tag)) == (where, name)
