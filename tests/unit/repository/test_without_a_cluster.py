"""Where there can be no cluster its tests are skipped, and say why; where CI wants them, they fail."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.looks import browser

ROOT = Path(__file__).parents[3]
NONE_WANTED = {"K8S_TESTS": "False"}
NONE_POSSIBLE = {"XDG_STATE_HOME": "/var/nowhere"}  # whatever else the machine lacks is said before
WHY = {"K8S_TESTS=False": NONE_WANTED, "needs ": NONE_POSSIBLE}


def cluster_tests(**told):
    """The end of the tests of the cluster, as `make test` runs them in this environment."""
    environment = {name: value for name, value in os.environ.items() if "_TESTS" not in name}
    command = [sys.executable, "-m", "pytest", "tests/cluster/test_kit_down.py", "--quiet"]
    return subprocess.run(
        command, cwd=ROOT, env=environment | told, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("why", "told"), WHY.items())
def test_without_a_cluster_all_its_tests_share_one_line_that_says_why(why, told):
    ran = cluster_tests(**told)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (line,) = re.findall(r"^SKIPPED .*", ran.stdout, re.MULTILINE)
    assert re.match(rf"SKIPPED \[5\] .*: no cluster on this machine: {why}", line)


@pytest.mark.parametrize(("why", "told"), WHY.items())
def test_where_they_are_required_to_skip_them_is_to_fail(why, told):
    ran = cluster_tests(**told, ELASTICDL_CLUSTER_TESTS="required")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert f"cluster tests are required here, and cannot run: {why}" in ran.stdout
    assert "SKIPPED" not in ran.stdout


def test_so_are_those_that_lack_a_browser(monkeypatch):
    monkeypatch.delenv("ELASTICDL_CLUSTER_TESTS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no browser on this machine: needs chromium"):
        browser.skip_or_fail("needs chromium")
    monkeypatch.setenv("ELASTICDL_CLUSTER_TESTS", "required")
    with pytest.raises(pytest.fail.Exception, match="a browser is required here, and there is none: needs"):
        browser.skip_or_fail("needs chromium")
