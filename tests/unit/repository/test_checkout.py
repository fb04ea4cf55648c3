"""What holds for the files of the repository, whoever writes them."""

import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
OURS = ("train", "images", "dev")


def same(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def texts():
    """Every text file that is part of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in content:
            yield name, content.decode(errors="replace")


def test_no_file_names_a_place_of_somebodys_machine_or_a_package_registry():
    in_images = r"(?!\.keras)"  # a tutorial mounts the user's folder there
    root = "/" + f"root/{in_images}"
    places = re.compile("|".join([root, "/" + "work/", "pypi" + r"\.org", "index" + "-url"]))
    found = {name: places.findall(text) for name, text in texts() if name != "LICENSE"}
    assert {name: places for name, places in found.items() if places} == {}


def test_test_files_have_names_of_their_own():
    files = Counter(path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py")
    assert [name for name, count in files.items() if count > 1 and name.startswith("test_")] == []
    assert [path for path in (ROOT / "tests").rglob("__init__.py") if "zoo" not in path.parts] == []


def test_every_package_that_is_installed_here_has_one_exact_version():
    wanted = [
        *PROJECT["dependencies"],
        *(need for extra in OURS for need in PROJECT["optional-dependencies"][extra]),
    ]
    names = {same(re.match(r"[\w.-]+", need)[0]) for need in wanted}
    assert names - {same(name) for name in PINNED} == set()
    assert all(re.fullmatch(r"[\w.]+", version) for version in PINNED.values())


def test_hooks_and_ci_run_what_people_run():
    makefile = (ROOT / "Makefile").read_text()
    checks = re.search(r"^lint: (.*?)  ##", makefile, re.MULTILINE)[1].split()
    hooks = re.findall(r"entry: make (\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks == checks
    assert all(re.search(rf"^{target}: setup", makefile, re.MULTILINE) for target in checks)
    script = (ROOT / ".ci/run").read_text().splitlines()
    assert [line.split()[1] for line in script if line.startswith("make ")] == ["setup", "lint", "test"]
