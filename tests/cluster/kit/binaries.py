"""The programs that no package has: built once with Go, from pinned modules, and kept in the user's cache.

The folder they are in is named after all that they are made from: our mains, their `go.mod` and `go.sum`,
the recipe and the version of Go. It appears whole or not at all, and one build at a time is under way.
What only some clusters need has a folder and a recipe of its own, which `kept` and `in_turn` serve as well.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from elastic_runtime.errors import ElasticError
from tests.cluster.kit.commands import PLAIN_ENVIRONMENT, run

SOURCES = Path(__file__).parent / "go"
MODULES = ("argo", "coredns", "kube", "pause")
KUBERNETES = "1.34.4"
KUBE_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
ARGO_MANIFESTS = (
    "base/crds/minimal",
    "base/workflow-controller/workflow-controller-configmap.yaml",
    "base/workflow-controller/workflow-controller-sa.yaml",
    "cluster-install-no-crds/workflow-controller-rbac",
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The folder with everything built."""

    folder: Path

    def __getitem__(self, program: str) -> Path:
        return self.folder / program

    @property
    def argo_manifests(self) -> Path:
        """Argo's CRDs and roles."""
        return self.folder / "argo.yaml"


def build(say: Callable[[str], None] | None = None) -> Binaries:
    """Returns the programs, having built them if the cache has none."""
    say = say or (lambda line: print(f"cluster: {line}", file=sys.stderr, flush=True))
    made_from = [Path(__file__), *(file for module in MODULES for file in files(SOURCES / module))]
    return Binaries(kept(cache_folder(), made_from, partial(_build_all, say)))


def kept(cache: Path, made_from: Iterable[Path], make: Callable[[Path, Path], None]) -> Path:
    """The folder of this cache that `make(out, scratch)` fills; made anew if what it is made from changes."""
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / key(made_from)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for dead in cache.glob("unfinished-*"):
                shutil.rmtree(dead)
            with tempfile.TemporaryDirectory(dir=cache, prefix="unfinished-") as unfinished:
                out = Path(unfinished) / "out"
                out.mkdir()
                make(out, Path(unfinished))
                out.rename(folder)
    return folder


def in_turn(steps: Mapping[str, Callable[[], None]], say: Callable[[str], None]) -> None:
    """Takes the steps of a recipe, and says how long each took."""
    for what, step in steps.items():
        began = time.monotonic()
        step()
        say(f"  {what}: {time.monotonic() - began:.0f} s")


def _build_all(say: Callable[[str], None], out: Path, scratch: Path) -> None:
    say("building Kubernetes, CoreDNS and Argo from source, once: about 12 minutes on 2 cores")
    steps = {
        "busybox, from its package": partial(_busybox, out, scratch),
        "pause": partial(go_build, SOURCES / "pause", out / "pause"),
        "CoreDNS": partial(go_build, SOURCES / "coredns", out / "coredns"),
        f"Kubernetes {KUBERNETES} and etcd": partial(_kube, out),
        "Argo Workflows": partial(_argo, out, scratch / "argo"),
    }
    in_turn(steps, say)


def _kube(out: Path) -> None:
    major, minor, _ = KUBERNETES.split(".")
    told = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in told.items())
    go_build(SOURCES / "kube", out / "kube", flags=flags)
    for program in KUBE_PROGRAMS:
        (out / program).symlink_to("kube")


def _argo(out: Path, copy: Path) -> None:
    """Builds Argo in a copy of its module, and adds what it lacks: modules hold no links and no UI."""
    module = json.loads(
        go(SOURCES / "argo", "mod", "download", "-json", "github.com/argoproj/argo-workflows/v4")
    )
    shutil.copytree(module["Dir"], copy)
    run("chmod", "-R", "u+w", copy)
    signals = copy / "workflow" / "executor" / "osspecific"
    shutil.copy(signals / "signal_darwin.go", signals / "signal_linux.go")
    page = copy / "ui" / "dist" / "app" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    for program in ("workflow-controller", "argoexec", "argo"):
        go_build(copy, out / program, f"./cmd/{program}")
    wanted = copy / "manifests" / "of-the-kit"
    wanted.mkdir()
    resources = [f"../{manifest}" for manifest in ARGO_MANIFESTS]
    (wanted / "kustomization.yaml").write_text(json.dumps({"namespace": "argo", "resources": resources}))
    loose = ("--load-restrictor", "LoadRestrictionsNone")
    (out / "argo.yaml").write_text(run(out / "kubectl", "kustomize", *loose, wanted))


def _busybox(out: Path, scratch: Path) -> None:
    """Takes the shell of test pods out of its package; installed, it would push another package out."""
    run(
        "sh",
        "-c",
        'cd "$1" && apt-get download -qq busybox-static && dpkg -x busybox-static*.deb .',
        "sh",
        scratch,
    )
    shutil.copy(next(scratch.glob("**/bin/busybox")), out / "busybox")


def go_build(folder: Path, result: Path, *packages: str, flags: str = "") -> None:
    """Builds packages seen from the module in `folder`: one into a file, several into a folder."""
    common = ("-mod=readonly", "-trimpath", "-ldflags", f"-s -w {flags}")
    go(folder, "build", *common, "-o", str(result), *(packages or (".",)))


def go(folder: Path, *command: str) -> str:
    """Runs a command of Go's in the module in `folder`, and returns what it printed.

    Its compiler and linker collect garbage less often than they would: that takes a fifth of their time.
    """
    env = PLAIN_ENVIRONMENT | dict(os.environ) | {"CGO_ENABLED": "0", "GOGC": "400"}
    return run("go", "-C", folder, *command, env=env)


def files(folder: Path) -> list[Path]:
    """All that are in it, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def key(made_from: Iterable[Path]) -> str:
    """What a folder made from these files is called."""
    content = hashlib.sha256(run("go", "env", "GOVERSION", "GOOS", "GOARCH").encode())
    for path in made_from:
        content.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return content.hexdigest()[:16]


def cache_folder() -> Path:
    """Where built programs are kept."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if not home.is_absolute():
        raise ElasticError(f"XDG_CACHE_HOME is {home}", remedy="make it an absolute path")
    return home / "elasticdl" / "cluster"
