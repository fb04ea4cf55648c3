"""Images built without a builder: what is in them, and that the same goes in comes out the same."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from registries import Front, registry
from small_images import BASE, Made, blob, get, put_image, put_manifest

from elastic_runtime.cli.main import main
from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.image.base import THIS_MACHINE
from elastic_runtime.steps.artifact import Folder
from elastic_runtime.steps.build_image import build_image
from tests.cluster.kit import requirements
from tests.cluster.kit.commands import run


def built(address: str, zoo: Path, repository: str = "team/model", **more: str) -> str:
    return build_image(
        base_image=f"{address}/{BASE}", repository=f"{address}/{repository}", model_zoo=str(zoo), **more
    )


def wheel(folder: Path, name: str, version: str, *needs: str) -> None:
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        archive.writestr(
            f"{about}/METADATA", "\n".join([*lines, *(f"Requires-Dist: {n}" for n in needs), ""])
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/entry_points.txt", f"[console_scripts]\n{name} = {name}:VERSION\n")
        archive.writestr(f"{about}/RECORD", "")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All the packages that pip can find."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_the_models_are_one_more_layer_that_anybody_can_read(server: str, zoo: Path) -> None:
    name = built(server, zoo)
    assert re.fullmatch(rf"{server}/team/model@sha256:[0-9a-f]{{64}}", name)
    made, base = Made(name), Made(f"{server}/{BASE}")
    assert made.layers[:-1] == base.layers
    files = made.files()
    assert list(files) == [
        "model_zoo",
        "model_zoo/.wh..wh..opq",
        "model_zoo/mnist",
        "model_zoo/mnist/model.py",
    ]
    assert {(entry.uid, entry.gid, entry.mtime) for entry in files.values()} == {(0, 0, 0)}
    assert files["model_zoo/mnist"].mode == 0o755
    assert files["model_zoo/mnist/model.py"].mode == 0o644


def test_what_the_base_image_says_of_itself_stays(server: str, zoo: Path) -> None:
    made, base = Made(built(server, zoo)), Made(f"{server}/{BASE}")
    about = made.config["config"]
    assert (about["User"], about["Env"], about["Labels"]["mine"]) == ("1000", ["PATH=/bin"], "stays")
    assert about["Labels"]["org.opencontainers.image.base.name"] == f"{server}/{BASE}"
    assert about["Labels"]["org.opencontainers.image.base.digest"] == base.digest
    layer = gzip.decompress(blob(server, "team/model", made.layers[-1]))
    assert made.config["rootfs"]["diff_ids"] == [
        *base.config["rootfs"]["diff_ids"],
        f"sha256:{hashlib.sha256(layer).hexdigest()}",
    ]
    assert [step["created_by"] for step in made.config["history"]] == [
        "test",
        "elasticdl: the model zoo, as /model_zoo",
    ]


def test_the_same_models_on_the_same_base_are_the_same_image(server: str, zoo: Path, tmp_path: Path) -> None:
    first = built(server, zoo)
    copy = shutil.copytree(zoo, tmp_path / "copy", symlinks=True)
    os.utime(copy / "mnist" / "model.py", (1, 1))
    assert built(server, copy) == first
    (copy / "mnist" / "model.py").write_text("changed\n")
    assert built(server, copy) != first


def test_a_second_build_sends_nothing_and_a_changed_model_one_small_layer(before: Front, zoo: Path) -> None:
    built(before.address, zoo, "twice/model")
    assert len(before.sent()) == 2  # the layer and the configuration; the base's were mounted
    built(before.address, zoo, "twice/model")
    assert len(before.sent()) == 2
    (zoo / "mnist" / "model.py").write_text("changed\n")
    built(before.address, zoo, "twice/model")
    assert len(before.sent()) == 4


@pytest.mark.parametrize("repository", ["tags/model:v1", "tags/model"])
def test_an_image_has_a_tag(server: str, zoo: Path, repository: str) -> None:
    name = built(server, zoo, repository)
    tag = repository.partition(":")[2] or name.partition("@sha256:")[2][:12]
    assert tag in get(server, "tags/model/tags/list")[0]["tags"]
    assert name.startswith(f"{server}/tags/model@sha256:")


def test_layers_of_a_base_in_another_registry_are_copied(server: str, zoo: Path, tmp_path: Path) -> None:
    with registry(tmp_path / "other") as other:
        name = build_image(base_image=f"{server}/{BASE}", repository=f"{other}/model", model_zoo=str(zoo))
        made = Made(name)
        for index in range(len(made.layers)):
            assert made.files(index)


def test_an_image_of_dockers_own_kind_stays_one(server: str, zoo: Path) -> None:
    put_image(f"{server}/docker/runtime:1", kind="docker")
    made = Made(
        build_image(
            base_image=f"{server}/docker/runtime:1", repository=f"{server}/docker/model", model_zoo=str(zoo)
        )
    )
    kinds = [made.manifest["mediaType"], *(part["mediaType"] for part in made.manifest["layers"])]
    assert all(kind.startswith("application/vnd.docker.") for kind in kinds)
    assert kinds[-1].endswith(".tar.gzip")


@pytest.fixture
def many(server: str) -> str:
    """An image for two platforms."""
    kinds = {"amd64": ("linux", "amd64"), "arm64": ("linux", "arm64", "v8")}
    parts = []
    for name, platform in kinds.items():
        files = {name: b"here"}
        found = put_image(f"{server}/many:{name}", architecture=platform[1], files=files)
        about = dict(zip(("os", "architecture", "variant"), platform, strict=False))
        kind = "application/vnd.oci.image.manifest.v1+json"
        size = len(str(found))
        parts.append({"mediaType": kind, "digest": found, "size": size, "platform": about})
    put_manifest(
        f"{server}/many:1",
        {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": parts},
    )
    return f"{server}/many:1"


@pytest.mark.parametrize(
    ("platform", "file"), [("linux/amd64", "amd64"), ("linux/arm64", "arm64"), ("linux/arm64/v8", "arm64")]
)
def test_of_an_image_for_several_platforms_the_wanted_one_is_taken(
    many: str, zoo: Path, platform: str, file: str
) -> None:
    name = build_image(
        base_image=many, repository=many.replace("many:1", "one"), model_zoo=str(zoo), platform=platform
    )
    assert list(Made(name).files(0)) == [file]


@pytest.mark.parametrize("platform", ["linux/s390x", "linux/arm"])
def test_a_platform_that_is_not_there_is_told_with_those_that_are(
    many: str, zoo: Path, platform: str
) -> None:
    with pytest.raises(
        InputError, match=rf"none for {platform} \(it is there for linux/amd64, linux/arm64/v8\)"
    ):
        build_image(
            base_image=many, repository=many.replace("many:1", "one"), model_zoo=str(zoo), platform=platform
        )
    with pytest.raises(InputError, match=f"is for {THIS_MACHINE}, not for {platform}"):
        built(many.partition("/")[0], zoo, platform=platform)


def test_a_zoo_may_be_an_artifact_or_a_uri(server: str, zoo: Path) -> None:
    first = built(server, zoo)
    name = build_image(
        base_image=f"{server}/{BASE}", repository=f"{server}/team/model", model_zoo_artifact=Folder(str(zoo))
    )
    assert name == first


def test_a_zoo_elsewhere_is_fetched(server: str, zoo: Path) -> None:
    fsspec.filesystem("memory").put(str(zoo / "mnist"), "/bucket/zoo/mnist", recursive=True)
    name = build_image(
        base_image=f"{server}/{BASE}", repository=f"{server}/team/model", model_zoo="memory://bucket/zoo"
    )
    assert "model_zoo/mnist/model.py" in Made(name).files()


@pytest.mark.parametrize("place", ["/nowhere", "memory://nowhere/zoo", ""])
def test_a_zoo_that_is_not_there_is_told(server: str, place: str) -> None:
    with pytest.raises(InputError, match=r"no such folder|no model zoo is named"):
        build_image(base_image=f"{server}/{BASE}", repository=f"{server}/x", model_zoo=place)


def test_what_cannot_be_copied_is_told(server: str, zoo: Path) -> None:
    os.mkfifo(zoo / "pipe")
    with pytest.raises(InputError, match=f"^{zoo}/pipe: cannot be copied: .*named pipe"):
        built(server, zoo)


def test_an_image_is_not_pushed_to_a_digest(server: str, zoo: Path) -> None:
    with pytest.raises(InputError, match="a digest is what comes out"):
        built(server, zoo, "model@sha256:" + "0" * 64)


def test_packages_are_a_layer_of_their_own_where_python_finds_them(
    server: str, zoo: Path, wheels: Path
) -> None:
    wheel(wheels, "tuner", "1.2", "helper>=1", "click")
    wheel(wheels, "helper", "1.0")
    made = Made(built(server, zoo, requirements="tuner>=1\n"))
    files = made.files(-2)
    assert "opt/elasticdl/packages/tuner.py" in files
    assert "opt/elasticdl/packages/helper.py" in files
    assert not any("click" in name for name in files)  # the image has it
    assert not any("/bin" in name or name.endswith(".pyc") for name in files)
    assert made.environment == {"PATH": "/bin", "PYTHONPATH": "/opt/elasticdl/packages"}
    assert made.config["history"][-2]["created_by"] == "elasticdl: helper==1.0, tuner==1.2"
    with made.opened(-2) as layer:
        assert layer.extractfile("opt/elasticdl/packages/tuner.py").read() == b"VERSION = '1.2'\n"  # type: ignore[union-attr]


def test_the_zoos_own_requirements_are_installed_the_same_each_time(
    server: str, zoo: Path, wheels: Path
) -> None:
    wheel(wheels, "tuner", "1.2")
    (zoo / "requirements.txt").write_text("tuner\n")
    first = built(server, zoo)
    assert "opt/elasticdl/packages/tuner.py" in Made(first).files(-2)
    assert built(server, zoo) == first


def test_what_the_image_has_already_is_no_layer(server: str, zoo: Path, wheels: Path) -> None:
    assert built(server, zoo, requirements="click\nnumpy>=1\n") == built(server, zoo)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("click==0.1", "asked for is click==0.1 | the image holds click=="),
        ("nowhere-to-be-found", "No matching distribution found for nowhere-to-be-found"),
        ("tuner[", "tuner["),
        ("from-source", "from-source"),
    ],
)
def test_a_requirement_that_cannot_be_met_is_told_before_anything_is_sent(
    before: Front, zoo: Path, wheels: Path, line: str, said: str
) -> None:
    (wheels / "from-source-1.0.tar.gz").touch()
    wheel(wheels, "click", "0.1")
    with pytest.raises(ElasticError, match="the requirements cannot be met") as told:
        built(before.address, zoo, requirements=line)
    assert said in told.value.what
    assert {method for method, _ in before.asked} == {"GET"}


@pytest.mark.parametrize(
    ("base", "told"),
    [
        (
            {"Env": ["PYTHON_VERSION=3.6.1"]},
            r"has Python 3\.6 on linux/\w+, and packages are chosen for Python 3",
        ),
        ({"architecture": "s390x"}, r"has Python 3\.\d+ on linux/s390x, and packages are chosen for"),
    ],
)
def test_packages_for_another_python_are_refused(
    server: str, zoo: Path, base: dict[str, Any], told: str
) -> None:
    put_image(f"{server}/other:1", **base)
    with pytest.raises(InputError, match=told):
        build_image(
            base_image=f"{server}/other:1", repository=f"{server}/x", model_zoo=str(zoo), requirements="tuner"
        )


def test_buildah_takes_the_image_and_finds_the_models_and_no_older_ones(
    server: str, zoo: Path, tmp_path: Path
) -> None:
    if reason := requirements.why_not():
        pytest.skip(f"no buildah as of a cluster: {reason}")
    requirements.install({"buildah": requirements.PACKAGES["buildah"]})

    def buildah(*words: str) -> str:
        places = ("--root", tmp_path / "root", "--runroot", tmp_path / "run", "--storage-driver", "vfs")
        return run("buildah", *places, *words).strip()

    container = buildah("from", "--tls-verify=false", built(server, zoo))
    root = Path(buildah("mount", container))
    assert (root / "model_zoo" / "mnist" / "model.py").read_text() == "def custom_model(): ...\n"
    assert sorted(os.listdir(root / "model_zoo")) == ["mnist"]
    assert (root / "etc" / "passwd").exists()
    buildah("rm", container)


def test_zoo_append_says_the_name_of_the_image(
    server: str, zoo: Path, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(wheels, "tuner", "1.2")
    (tmp_path / "more.txt").write_text("tuner\n")
    options = (f"--base_image={server}/{BASE}", f"--repository={server}/team/model", f"--model_zoo={zoo}")
    with pytest.raises(SystemExit) as end:
        main(["zoo", "append", *options, f"--requirements={tmp_path}/more.txt"])
    assert end.value.code == 0
    assert "opt/elasticdl/packages/tuner.py" in Made(capsys.readouterr().out.strip()).files(-2)


def test_a_place_of_packages_that_requirements_name_is_searched(
    server: str, zoo: Path, wheels: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    wheel(elsewhere, "tuner", "1.2")
    (zoo / "more.txt").write_text(f"--find-links {elsewhere}\ntuner\n")
    (zoo / "requirements.txt").write_text("-r more.txt\n")
    assert "opt/elasticdl/packages/tuner.py" in Made(built(server, zoo)).files(-2)


def test_a_wheel_may_be_named_by_its_address(server: str, zoo: Path, wheels: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    wheel(elsewhere, "tuner", "1.2")
    line = f"tuner @ {elsewhere.as_uri()}/tuner-1.2-py3-none-any.whl"
    assert "opt/elasticdl/packages/tuner.py" in Made(built(server, zoo, requirements=line)).files(-2)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")
def test_a_full_disk_is_told(server: str, zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (zoo / "weights").write_bytes(os.urandom(300_000))
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", small)
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        with pytest.raises(ElasticError, match=r"cannot be packed: .*No space left on device"):
            built(server, zoo)
        assert list(small.iterdir()) == []
    finally:
        run("umount", small)
