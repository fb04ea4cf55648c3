"""Go code for the protobuf files of KFP's Python packages, which hold these as descriptors.

    python -SP kfp_bindings.py WHEELS PROTOC-GEN-GO OUT

Run by itself, without this environment's packages: WHEELS has the descriptors and a protobuf to read them.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

FILES = ("kfp/pipeline_spec/pipeline_spec_pb2.py", "kfp/kubernetes/kubernetes_executor_config_pb2.py")


def main(wheels: Path, generator: Path, out: Path) -> None:
    sys.path.insert(0, str(wheels))
    from google.protobuf.compiler import plugin_pb2

    request = plugin_pb2.CodeGeneratorRequest(parameter="module=github.com/kubeflow/pipelines")
    known: set[str] = set()
    for file in FILES:
        descriptor = _loaded(wheels / file).DESCRIPTOR
        request.file_to_generate.append(descriptor.name)
        for needed in _with_dependencies(descriptor):
            if needed.name not in known:
                known.add(needed.name)
                needed.CopyToProto(request.proto_file.add())
    done = subprocess.run([generator], input=request.SerializeToString(), stdout=subprocess.PIPE, check=True)
    answer = plugin_pb2.CodeGeneratorResponse.FromString(done.stdout)
    if answer.error:
        raise SystemExit(answer.error)
    for made in answer.file:
        place = out / made.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(made.content)


def _loaded(path: Path) -> ModuleType:
    """By its path: the package around it wants all of KFP's SDK."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _with_dependencies(descriptor: Any) -> Iterator[Any]:
    """Those first, as the generator wants them."""
    for dependency in descriptor.dependencies:
        yield from _with_dependencies(dependency)
    yield descriptor


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
