"""What the install line of a page brings is enough for the commands of that page.

An environment is made as pip would make it, of links to the packages that are here: those that the line asks
for, what they need in turn, and no others.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from elastic_runtime.errors import installing
from tests.unit.platform.kubernetes.small_server import small_server

ROOT = Path(__file__).parents[3]
TUTORIALS = [ROOT / "docs" / "tutorials" / name for name in ("local.md", "cloud.md")]
INSTALLS = re.compile(r"pip install '?\.(?:\[([\w,]+)\])?'?$", re.MULTILINE)
JOB = ("--job_name=j", "--image_name=registry.example/m:1", "--model_def=m.model", "--training_data=/data")
NAMED = re.compile(r"""(?:'\.\[|installing\(")([\w,]+)(?:\]'|"\))""")
Typed = Callable[..., subprocess.CompletedProcess[str]]


def brought(program: metadata.Distribution) -> dict[str, metadata.Distribution]:
    """All that comes with a package, by name."""
    found: dict[str, metadata.Distribution] = {}
    seen = set()
    open_ends = [(program, "")]
    while open_ends:
        package, extra = open_ends.pop()
        for line in package.requires or []:
            needed = Requirement(line)
            if needed.marker and not needed.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(needed.name)
            for more in ("", *needed.extras):
                if (name, more) not in seen:
                    seen.add((name, more))
                    found[name] = metadata.distribution(name)
                    open_ends.append((found[name], more))
    return found


def link(package: metadata.Distribution, site: Path) -> None:
    """Each file, since a folder such as `google` is that of many packages."""
    for file in package.files or []:
        here, there = Path(str(file.locate())), site / file
        if ".." not in file.parts and here.exists() and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(here)


@pytest.fixture(scope="module")
def site(wheel_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install .` makes."""
    made = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel_file) as archive:
        archive.extractall(made)
    (about,) = made.glob("elasticdl-*.dist-info")
    for package in brought(metadata.Distribution.at(about)).values():
        link(package, made)
    return made


@pytest.fixture
def typed(site: Path, tmp_path: Path) -> Typed:
    """A command in that environment, at the end of which there is no traceback, whatever is asked."""

    def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-S", "-m", "elastic_runtime", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1", **environ},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_the_tutorials_install_nothing_but_the_program(page: Path) -> None:
    """So all that is done below is what their readers can do."""
    assert INSTALLS.findall(page.read_text()) == [""]


def test_that_is_without_what_only_some_need(site: Path) -> None:
    there = {path.name for path in site.iterdir()}
    assert {"elastic_runtime", "kubernetes", "yaml", "grpc"} <= there
    assert not {"tensorflow", "keras", "numba", "PIL", "kfp", "hera", "s3fs", "gcsfs", "horovod"} & there


def test_a_job_on_kubernetes_is_shown(typed: Typed) -> None:
    done = typed("train", *JOB, "--model_zoo=/model_zoo", "--num_ps_pods=1", "--dry_run", "-o", "yaml")
    assert done.returncode == 0, done.stderr
    assert [each["kind"] for each in yaml.safe_load_all(done.stdout) if each] == [
        *("ConfigMap", "Secret", "Service", "Service", "Pod")
    ]


def test_the_jobs_of_a_namespace_are_listed(typed: Typed, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with small_server(kubeconfig, ("pods", "list"), ("configmaps", "list")):
        done = typed("job", "list", "-n", "n", "--json", KUBECONFIG=str(kubeconfig))
    assert (done.returncode, json.loads(done.stdout)) == (0, [])


def test_data_are_converted_and_an_image_is_described(typed: Typed, tmp_path: Path) -> None:
    assert typed("data", "mnist", "data/mnist", "--sample").returncode == 0
    (tmp_path / "model_zoo").mkdir()
    assert typed("zoo", "init", "--model_zoo=model_zoo").returncode == 0
    packages = (tmp_path / ".elasticdl" / "requirements.txt").read_text().split()
    assert {"kubernetes>=29", "numba>=0.61"} <= set(packages)


HERE = ("train", "--job_name=j", "--model_def=m.custom_model", "--training_data=data")
LACKING = {
    "s3fs": (("data", "inspect", "s3://b/x"), "s3:// needs a package that is not installed", "s3"),
    "gcsfs": (("data", "inspect", "gs://b/x"), "gs:// needs a package that is not installed", "gs"),
    "Pillow": (("data", "convert", "pictures", "out", "--kind=images"), "images need Pillow", "images"),
    "TensorFlow": (HERE, "TensorFlow is not installed here", "train"),
    "numba": ((*HERE, "--num_workers=0"), "numba is not installed here", "ps"),
}


@pytest.mark.parametrize("lacking", LACKING)
def test_what_takes_more_names_what_brings_it(typed: Typed, tmp_path: Path, lacking: str) -> None:
    (tmp_path / "pictures" / "cat").mkdir(parents=True)
    (tmp_path / "pictures" / "cat" / "1.png").write_bytes(b"no picture")
    (tmp_path / "m.py").write_text("def custom_model(): ...\n")
    words, what, extra = LACKING[lacking]
    done = typed(*words)
    assert done.returncode == 2, done.stderr
    told = done.stderr.splitlines()[-1]
    assert what in told
    assert told.endswith(f"({installing(extra)})")


def test_the_extras_that_are_named_are_there(site: Path) -> None:
    (about,) = site.glob("elasticdl-*.dist-info")
    known = set(metadata.Distribution.at(about).metadata.get_all("Provides-Extra") or [])
    sources = [*(ROOT / "elastic_runtime").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    lists = [many for file in sources for many in NAMED.findall(file.read_text())]
    named = {extra for many in lists for extra in many.split(",")}
    assert "train" in named
    assert named | {extra for _, _, extra in LACKING.values()} <= known
