"""What `make cluster-env` prints makes a shell one of the cluster's: kubectl, and the registry's name."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster.kit.__main__ import _env
from tests.cluster.kit.binaries import Binaries
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.site import Site


def test_a_shell_that_evaluates_it_has_kubectl_the_cluster_and_the_registry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "it's here"
    programs.mkdir()
    (programs / "kubectl").touch(mode=0o755)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = Cluster(Site(0), Binaries(programs), 3)
    _env(cluster)
    asked = 'command -v kubectl; echo "$KUBECONFIG"; echo "$ELASTICDL_REGISTRY"; echo "$NO_PROXY"'
    known = {"PATH": os.environ["PATH"], "NO_PROXY": "localhost"}
    told = subprocess.run(
        ["sh", "-c", f"{capsys.readouterr().out}\n{asked}"],
        env=known,
        capture_output=True,
        text=True,
        check=True,
    )
    network = cluster.site.network
    assert told.stdout.splitlines() == [
        str(programs / "kubectl"),
        str(cluster.kubeconfig),
        cluster.site.registry,
        f"localhost,{network}",
    ]
