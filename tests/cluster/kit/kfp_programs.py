"""The programs of Kubeflow Pipelines and its own manifests, all out of the module that a release of it is.

That module lacks the Go code for the two protobuf files that KFP's Python packages are made of, too; so that
is generated from those, of the newest version, as pipelines are compiled by it. One package of the kind is
published, and taken as it is. Built are they where a cluster is asked for with KFP, and kept from then on.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.cluster.kit import binaries
from tests.cluster.kit.binaries import SOURCES
from tests.cluster.kit.commands import run

RELEASE = "2.14.3"
MODULE = "github.com/kubeflow/pipelines"
PACKAGES = (
    "backend/src/apiserver",
    "backend/src/agent/persistence",
    "backend/src/crd/controller/scheduledworkflow",
    "backend/src/v2/cmd/driver",
    "backend/src/v2/cmd/launcher-v2",
)
GENERATOR = "google.golang.org/protobuf/cmd/protoc-gen-go"
WHEELS = (
    "kfp-pipeline-spec==2.17.3",
    "kfp-kubernetes==2.17.3",
    "googleapis-common-protos==1.76.0",
    "protobuf==6.33.6",
)
CACHE_KEY = "v2alpha1/go/cachekey/cache_key.pb.go"
CONFIGURATION = "backend/src/apiserver/config/config.json"
MANIFESTS = (
    "base/installs/generic/mysql-secret.yaml",
    "base/installs/generic/pipeline-install-config.yaml",
    "base/metadata/base/metadata-grpc-configmap.yaml",
    "base/metadata/base/metadata-grpc-service.yaml",
    "base/pipeline/cluster-scoped/scheduled-workflow-crd.yaml",
    "base/pipeline/ml-pipeline-apiserver-*.yaml",
    "base/pipeline/ml-pipeline-persistenceagent-*.yaml",
    "base/pipeline/ml-pipeline-scheduledworkflow-*.yaml",
    "base/pipeline/ml-pipeline-visualization-service.yaml",
    "base/pipeline/pipeline-runner-*.yaml",
    "third-party/minio/base/minio-service.yaml",
    "third-party/minio/base/mlpipeline-minio-artifact-secret.yaml",
    "third-party/mysql/base/mysql-service.yaml",
)
BINDINGS = Path(__file__).with_name("kfp_bindings.py")


def build(say: Callable[[str], None]) -> Path:
    """Returns the folder with programs, `config.json` and `manifests`, made if there is none."""
    made_from = [Path(__file__), Path(binaries.__file__), BINDINGS, *binaries.files(SOURCES / "kfp")]
    cache = binaries.cache_folder().with_name("kfp")
    return binaries.kept(cache, made_from, partial(_build, say))


def _build(say: Callable[[str], None], out: Path, scratch: Path) -> None:
    say(f"building Kubeflow Pipelines {RELEASE} from source, once: about 6 minutes on 2 cores")
    modules = scratch / "kfp"
    shutil.copytree(SOURCES / "kfp", modules)
    steps = {
        "its source": partial(_unpack, modules, out),
        "what is generated": partial(_generate, modules, scratch),
        "its programs": partial(
            binaries.go_build, modules, out, *(f"{MODULE}/{package}" for package in PACKAGES)
        ),
    }
    binaries.in_turn(steps, say)


def _unpack(modules: Path, out: Path) -> None:
    """Fetches the modules, and takes out of KFP's what is no program."""
    source = _downloaded(modules, MODULE)
    shutil.copy(source / CONFIGURATION, out / "config.json")
    manifests = out / "manifests"
    manifests.mkdir()
    for pattern in MANIFESTS:
        found = sorted((source / "manifests" / "kustomize").glob(pattern))
        if not found:
            raise FileNotFoundError(f"{MODULE} has no {pattern}")
        for file in found:
            shutil.copy(file, manifests)


def _generate(modules: Path, scratch: Path) -> None:
    """Puts the code that is missing into the modules that were copied."""
    cache_key = modules / "api" / CACHE_KEY
    cache_key.parent.mkdir(parents=True)
    shutil.copy(_downloaded(modules / "published", f"{MODULE}/api") / CACHE_KEY, cache_key)
    wheels, generator = scratch / "wheels", scratch / "protoc-gen-go"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", wheels, *WHEELS)
    binaries.go_build(modules, generator, GENERATOR)
    run(sys.executable, "-SP", BINDINGS, wheels, generator, modules)


def _downloaded(module: Path, name: str) -> Path:
    """The folder of a module that `module` needs; what was published later under its version is refused."""
    return Path(json.loads(binaries.go(module, "mod", "download", "-json", name))["Dir"])
