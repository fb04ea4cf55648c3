"""`.ci/setup`: once is enough, an interrupted one is begun again, and what is missing is said.

Python is played by a script that can be told to fail and writes down what it was asked to do.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HOROVOD = "elastic_runtime/worker/allreduce/horovod"
PYTHON = """#!/bin/bash
echo "$@" >>"$DONE"
case "$*" in
  *version_info\\ \\<*) [ "$FAILS" != version ] ;;
  *ensurepip*) [ "$FAILS" != venv ] ;;
  *print*) echo python3.11-venv ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo made >"$3/made" ;;
  "-m pip install "*) echo "Collecting a"; [ "$FAILS" != pip ] || { echo "no such package"; exit 1; } ;;
  --version) echo Python 3.11.9 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A fresh clone, as far as the set-up looks at it."""
    (tmp_path / ".ci").mkdir()
    for name in (".ci/setup", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / HOROVOD, tmp_path / HOROVOD)
    python = tmp_path / "python3.11"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def set_up(checkout, *, fails=""):
    """Run it; its exit code, what it said, and what Python was asked to do."""
    done = checkout / "done"
    done.write_text("")
    no_system = checkout / "bin"  # only what the script needs: no apt-get, so nothing is ever installed
    if not no_system.exists():
        no_system.mkdir()
        for tool in (
            "awk",
            "bash",
            "cat",
            "cp",
            "dirname",
            "flock",
            "id",
            "mkdir",
            "rm",
            "sha256sum",
            "tail",
            "tee",
            "wc",
        ):
            (no_system / tool).symlink_to(shutil.which(tool) or pytest.fail(f"no {tool} here"))
    environment = {
        "PATH": str(no_system),
        "PYTHON": f"{checkout}/python3.11",
        "DONE": str(done),
        "FAILS": fails,
    }
    ran = subprocess.run(
        [f"{checkout}/.ci/setup"],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr, done.read_text()


def test_a_fresh_clone_gets_everything_and_is_told_what_is_done(checkout):
    code, said, done = set_up(checkout)
    assert code == 0
    assert "-m venv .venv" in done
    assert "-c constraints.txt -e .[train,allreduce,images,pipelines,s3,gs,dev]" in done
    assert f"-m {HOROVOD.replace('/', '.')}.build --install" in done
    assert "setup: making .venv with Python 3.11.9" in said
    assert "setup: installing" in said
    assert "setup: ready" in said


def test_a_second_time_does_and_says_nothing(checkout):
    set_up(checkout)
    os.utime(checkout / "pyproject.toml")  # a checkout of another branch and back
    assert set_up(checkout) == (0, "", "")


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt", ".ci/setup", f"{HOROVOD}/build.py"])
def test_a_change_installs_again_into_the_same_environment(checkout, changed):
    set_up(checkout)
    with (checkout / changed).open("a") as file:
        file.write("# changed\n")
    code, _, done = set_up(checkout)
    assert code == 0
    assert "-m pip install" in done
    assert "-m venv" not in done


def test_what_pip_could_not_do_is_shown_and_begun_again_from_nothing(checkout):
    code, said, _ = set_up(checkout, fails="pip")
    assert code == 2
    assert "no such package" in said
    code, said, done = set_up(checkout)
    assert code == 0
    assert "unfinished" in said
    assert "-m venv .venv" in done


def test_an_environment_of_the_users_own_is_kept(checkout):
    (checkout / ".venv/bin").mkdir(parents=True)
    shutil.copy(checkout / "python3.11", checkout / ".venv/bin/python")
    code, _, done = set_up(checkout)
    assert code == 0
    assert "-m venv" not in done
    assert "-m pip install" in done


def test_an_environment_whose_python_is_gone_is_made_again(checkout):
    set_up(checkout)
    (checkout / ".venv/bin/python").unlink()
    code, _, done = set_up(checkout)
    assert code == 0
    assert "-m venv .venv" in done


def test_an_environment_made_for_another_folder_is_made_again(checkout):
    set_up(checkout)
    moved = checkout.rename(checkout.with_name("moved"))
    code, said, done = set_up(moved)
    assert code == 0
    assert "another folder" in said
    assert "-m venv .venv" in done
    assert set_up(moved) == (0, "", "")


def test_an_older_python_is_refused_with_the_remedy(checkout):
    code, said, done = set_up(checkout, fails="version")
    assert code == 2
    assert "Python 3.11 or newer is needed: sudo apt-get install" in said
    assert "venv" not in done


def test_without_the_venv_module_the_package_is_named(checkout):
    code, said, done = set_up(checkout, fails="venv")
    assert code == 2
    assert "sudo apt-get install python3.11-venv" in said
    assert "pip" not in done.replace("ensurepip", "")
