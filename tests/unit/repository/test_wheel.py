"""The wheel is the package and its components: all of both, and nothing else."""

import re
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def wheel(wheel_file):
    with zipfile.ZipFile(wheel_file) as archive:
        yield archive


def files_in(folder):
    return [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]


def test_the_wheel_has_every_file_of_the_package_and_none_beside(wheel):
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    here = {f"elastic_runtime/{path}" for path in files_in(ROOT / "elastic_runtime")}
    here |= {f"elasticdl_components/{path}" for path in files_in(ROOT / "components")}
    assert shipped == {path for path in here if "__pycache__" not in path}
    assert {Path(name).suffix for name in shipped} >= {".py", ".pyi", ".proto", ".css", ".npz"}


def test_the_wheel_brings_the_command_and_the_licence(wheel):
    files = {Path(name).name: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "elasticdl = elastic_runtime.cli.main:main" in wheel.read(files["entry_points.txt"]).decode()
    assert wheel.read(files["LICENSE"]) == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_brings_what_speaks_to_kubernetes_and_tensorflow_only_as_an_extra(wheel):
    metadata = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    needs = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist:")]
    always = {re.match(r"Requires-Dist: ([\w-]+)", line)[1] for line in needs if "extra ==" not in line}
    assert any("tensorflow" in line for line in needs)
    assert "kubernetes" in always
    assert not always & {"tensorflow", "tensorflow-cpu", "numba"}
