"""What networks and registries do wrong: what passes is waited for, what stays is one clear error."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from registries import REFRESH, USER, Front, front, htpasswd, registry
from small_images import BASE, OCI, Made, put_image

from elastic_runtime.errors import ElasticError
from elastic_runtime.image.append import push
from elastic_runtime.image.base import find
from elastic_runtime.image.layer import Layer, pack
from elastic_runtime.image.registry import Reference
from elastic_runtime.image.registry.blob import Blob
from elastic_runtime.image.registry.wire import Trouble
from tests.cluster.kit.commands import run

IMPATIENT = 0.3
numbers = itertools.count()


@pytest.fixture
def layer(tmp_path: Path, zoo: Path) -> Layer:
    """One that no registry has: several pieces of it are on their way when a line breaks."""
    (zoo / "weights").write_bytes(random.Random(next(numbers)).randbytes(3 << 20))
    return pack(zoo, inside="/model_zoo", file=tmp_path / "layer", said="models")


def pushed(base: str, layer: Layer, target: str, **how: Any) -> Made:
    return Made(push(find(base, **how), [layer], Reference.parse(target), environment={}, **how))


@pytest.mark.parametrize(
    ("method", "part", "how"),
    [
        ("GET", "manifests/", {"at": "once"}),
        ("GET", "manifests/", {"status": 503}),
        ("GET", "manifests/", {"at": "in the answer"}),
        ("GET", "blobs/", {"at": "in the answer"}),
        ("HEAD", "blobs/", {"at": "once"}),
        ("HEAD", "blobs/", {"status": 502}),
        ("POST", "uploads/", {"at": "once"}),
        ("POST", "uploads/", {"status": 429, "headers": {"Retry-After": "0"}}),
        ("PUT", "uploads/", {"at": "once"}),
        ("PUT", "uploads/", {"at": "in the body"}),
        ("PUT", "uploads/", {"at": "before the body", "status": 500}),
        ("PUT", "uploads/", {"status": 404}),
        ("PUT", "manifests/", {"at": "once"}),
        ("PUT", "manifests/", {"status": 500, "times": 2}),
    ],
)
def test_what_fails_once_is_done_again(
    before: Front, layer: Layer, method: str, part: str, how: dict[str, Any]
) -> None:
    before.once(method, part, **how)
    made = pushed(f"{before.address}/{BASE}", layer, f"{before.address}/faults/model")
    assert "model_zoo/weights" in made.files()
    assert all(not fault.times for fault in before.faults)


@pytest.mark.parametrize("at", ["in the answer", "once"])
def test_a_layer_that_breaks_off_while_it_is_copied_is_copied_again(
    before: Front, server: str, layer: Layer, tmp_path: Path, at: str
) -> None:
    base = f"{before.address}/{BASE}"
    lowest = Made(f"{server}/{BASE}").layers[0]
    before.once("GET", lowest, at=at)
    with registry(tmp_path / "other") as other:
        made = pushed(base, layer, f"{other}/model")
        assert made.files(0)
    assert len([path for method, path in before.asked if method == "GET" and lowest in path]) == 2


def test_what_goes_on_failing_is_told_in_the_end(before: Front) -> None:
    before.once("GET", "manifests/", status=503, times=1000)
    with pytest.raises(Trouble, match=rf"{before.address}: HTTP 503 Service Unavailable"):
        find(f"{before.address}/{BASE}", patience=IMPATIENT)
    assert len(before.asked) >= 3


def test_nobody_waits_for_an_hour(before: Front) -> None:
    before.once("GET", "manifests/", status=429, headers={"Retry-After": "3600"})
    with pytest.raises(Trouble, match="HTTP 429"):
        find(f"{before.address}/{BASE}")


def test_a_registry_that_is_not_there_is_told() -> None:
    with pytest.raises(Trouble, match=r"localhost:1: the connection failed: .*refused"):
        find("localhost:1/runtime", patience=IMPATIENT)


def test_a_host_that_nobody_knows_is_told_at_once() -> None:
    with pytest.raises(ElasticError, match="no such host is known") as told:
        find("nowhere.invalid/runtime")
    assert not isinstance(told.value, Trouble)


def test_a_registry_of_plain_http_has_to_be_named(server: str, layer: Layer) -> None:
    port = server.partition(":")[2]
    base, target = f"0.0.0.0:{port}/{BASE}", f"0.0.0.0:{port}/plain/model"  # not taken for this machine
    with pytest.raises(ElasticError, match="speaks plain HTTP, not HTTPS") as told:
        find(base)
    assert told.value.remedy == "name it in insecure_registries"
    assert pushed(base, layer, target, insecure_registries=[f"0.0.0.0:{port}"]).layers


def test_a_refusal_is_heard_while_the_layer_is_being_sent(before: Front, layer: Layer) -> None:
    base = find(f"{before.address}/{BASE}")
    before.once("PUT", "uploads/", at="before the body", status=413)
    with pytest.raises(ElasticError, match="takes nothing of this size: HTTP 413"):
        push(base, [layer], Reference.parse(f"{before.address}/faults/large"), environment={})


def test_a_tag_never_names_half_an_image(before: Front, server: str, layer: Layer) -> None:
    put_image(f"{server}/half:v1", files={"old": b""})
    before.once("PUT", "uploads/", status=403, times=1)
    base = find(f"{before.address}/{BASE}")
    with pytest.raises(ElasticError, match="refuses"):
        push(base, [layer], Reference.parse(f"{before.address}/half:v1"), environment={})
    assert Made(f"{server}/half:v1").files().keys() == {"old"}


@pytest.mark.parametrize("name", ["nowhere:1", "runtime:2", "runtime@sha256:" + "0" * 64])
def test_an_image_that_is_not_there_is_told(server: str, name: str) -> None:
    with pytest.raises(ElasticError, match=r"there is no image .*MANIFEST_UNKNOWN") as told:
        find(f"{server}/{name}")
    assert told.value.remedy == "is its name right, and is it for us to see?"


DIGEST = "sha256:" + "0" * 64
PART = {"mediaType": f"{OCI}.config.v1+json", "digest": DIGEST, "size": 2}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"<html>", "no image"),
        (b"", "no image"),
        (b"[" * 100_000, "no image"),
        (b'"a"', "no image"),
        (b"\xff\xfe", "no image"),
        (b"{}", "no image"),
        ({"config": PART}, "no image: KeyError"),
        ({"config": PART, "layers": [{**PART, "size": "2"}]}, "'2' is no size"),
        ({"config": PART, "layers": [{**PART, "size": -1}]}, "-1 is no size"),
        ({"config": PART, "layers": [{**PART, "digest": "../../x"}]}, "no digest"),
        ({"config": {**PART, "digest": 1}, "layers": []}, "no image"),
        ({"config": {**PART, "mediaType": "application/vnd.cncf.helm.config.v1+json"}, "layers": []}, "helm"),
        (b" " * (5 << 20), "too large"),
    ],
)
def test_what_is_no_manifest_is_told(before: Front, content: Any, told: str) -> None:
    if isinstance(content, dict):
        content = json.dumps(content).encode()
    before.answers["/v2/odd/manifests/1"] = (f"{OCI}.manifest.v1+json", content)
    with pytest.raises(ElasticError, match=told):
        find(f"{before.address}/odd:1")


@pytest.mark.parametrize(
    "kind",
    [
        "application/vnd.docker.distribution.manifest.v1+prettyjws",
        "application/vnd.oci.artifact.manifest.v1+json",
        "text/html",
    ],
)
def test_what_is_no_image_that_can_be_built_on_is_told(before: Front, kind: str) -> None:
    before.answers["/v2/odd/manifests/1"] = (kind, b'{"schemaVersion": 1}')
    with pytest.raises(ElasticError, match=f"is no image that can be built on: {kind}".replace("+", r"\+")):
        find(f"{before.address}/odd:1")


@pytest.mark.parametrize(
    "config", [b"{}", b"[]", b'{"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": []}}']
)
def test_a_configuration_that_does_not_fit_is_told(before: Front, config: bytes) -> None:
    blob = Blob.of(config)
    manifest = {
        "config": {"mediaType": f"{OCI}.config.v1+json", "digest": blob.digest, "size": 2},
        "layers": [PART],
    }
    before.answers["/v2/odd/manifests/1"] = (f"{OCI}.manifest.v1+json", json.dumps(manifest).encode())
    before.answers[f"/v2/odd/blobs/{blob.digest}"] = ("application/octet-stream", config)
    with pytest.raises(ElasticError, match="no image"):
        find(f"{before.address}/odd:1")


def test_another_image_than_was_asked_for_is_refused(before: Front, server: str) -> None:
    digest = Made(f"{server}/{BASE}").digest
    before.answers[f"/v2/runtime/manifests/{digest}"] = (f"{OCI}.manifest.v1+json", b"{}")
    with pytest.raises(ElasticError, match="another image than this"):
        find(f"{before.address}/runtime@{digest}")


def login(
    folder: Path, address: str, password: str = "secret", file: str = "config.json", **more: str
) -> None:
    folder.mkdir(exist_ok=True)
    entry = {"username": USER, "password": password, **more}
    (folder / file).write_text(json.dumps({"auths": {f"https://{address}/v1/": entry}}))


@pytest.mark.parametrize("file", ["config.json", ".dockerconfigjson"])
def test_a_login_opens_the_registry(server: str, layer: Layer, tmp_path: Path, file: str) -> None:
    with registry(tmp_path / "locked", auth=htpasswd(tmp_path / "locked")) as address:
        target = Reference.parse(f"{address}/model:1")
        base = find(f"{server}/{BASE}")
        with pytest.raises(ElasticError, match="no login in") as told:
            push(base, [layer], target, environment={})
        assert f"docker login {address}" in told.value.remedy
        login(tmp_path / "docker", address, "wrong", file)
        with pytest.raises(ElasticError, match="UNAUTHORIZED") as told:
            push(base, [layer], target, environment={})
        assert told.value.remedy == f"may {USER} of {tmp_path}/docker/{file} do this?"
        login(tmp_path / "docker", address, file=file)
        assert push(base, [layer], target, environment={}).startswith(f"{address}/model@sha256:")
        assert find(f"{address}/model:1", patience=IMPATIENT)


def test_a_token_is_asked_for_what_is_to_be_done(before: Front, layer: Layer, tmp_path: Path) -> None:
    before.wants_token = True
    login(tmp_path / "docker", before.address)
    base = find(f"{before.address}/{BASE}")
    push(base, [layer], Reference.parse(f"{before.address}/tokens/model"), environment={})
    assert before.scopes == [
        ["repository:runtime:pull"],
        ["repository:tokens/model:pull,push", "repository:runtime:pull"],
    ]
    assert len(before.sent()) == 2  # the base's layers were shared


def test_a_token_that_ran_out_is_asked_for_again(before: Front, layer: Layer, tmp_path: Path) -> None:
    before.wants_token = True
    login(tmp_path / "docker", before.address)
    before.once(
        "PUT",
        "uploads/",
        status=401,
        headers={"WWW-Authenticate": f'Bearer realm="http://{before.address}/token",service=tests'},
    )
    push(
        find(f"{before.address}/{BASE}"),
        [layer],
        Reference.parse(f"{before.address}/tokens/model"),
        environment={},
    )
    assert len(before.scopes) == 3


def test_a_token_that_lasts_is_given_for_one_that_does_not(before: Front, tmp_path: Path) -> None:
    before.wants_token = True
    login(tmp_path / "docker", before.address, identitytoken=REFRESH)
    assert find(f"{before.address}/{BASE}")
    assert ("POST", "/token?account=x") in before.asked


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_who_is_sent_elsewhere_says_there_not_who_it_is(
    before: Front, server: str, layer: Layer, tmp_path: Path, method: str
) -> None:
    before.wants_token = True
    login(tmp_path / "docker", before.address)
    base = Made(f"{server}/{BASE}")
    part = base.manifest["config"]["digest"] if method == "GET" else base.layers[0]
    with front(server) as storage:
        place = f"http://{storage.address}/v2/runtime/blobs/{part}"
        before.once(method, part, status=307, headers={"Location": place})
        target = Reference.parse(f"{before.address}/runtime:elsewhere")
        push(find(f"{before.address}/{BASE}"), [layer], target, environment={})
        assert (method, f"/v2/runtime/blobs/{part}") in storage.asked
        assert set(storage.shown) == {None}


def test_no_proxy_stands_between_us_and_this_machine(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://localhost:1")
    assert find(f"{server}/{BASE}", patience=IMPATIENT)
    elsewhere = server.replace("127.0.0.1", "0.0.0.0")
    with pytest.raises(Trouble, match="refused"):
        find(f"{elsewhere}/{BASE}", insecure_registries=[elsewhere], patience=IMPATIENT)


def test_a_token_that_is_not_given_is_told(before: Front) -> None:
    before.wants_token = True
    with pytest.raises(ElasticError, match=r"refuses: UNAUTHORIZED: who are you\? \(docker login"):
        find(f"{before.address}/{BASE}")


def test_a_certificate_counts_if_its_authority_is_named(
    layer: Layer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ("-subj", "/CN=registry", "-addext", "subjectAltName=IP:0.0.0.0")  # not taken for this machine
    files = ("-keyout", key, "-out", certificate)
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2", *subject, *files)
    tls = {"certificate": str(certificate), "key": str(key)}
    with registry(tmp_path / "tls", http={"addr": "127.0.0.1:0", "tls": tls}) as address:
        base = address.replace("127.0.0.1", "0.0.0.0") + f"/{BASE}"
        with pytest.raises(ElasticError, match=r"its certificate is not trusted: self.signed") as told:
            find(base)
        assert "SSL_CERT_FILE" in told.value.remedy
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        put_image(base)
        assert push(find(base), [layer], Reference.parse(base), environment={})
