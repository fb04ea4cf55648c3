"""Rebuild the protobuf stubs beside the .proto files; with `--check`, only say whether they drifted."""

from __future__ import annotations

import importlib.resources
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


def main() -> None:
    """Generate into a temporary folder, then compare or copy."""
    check = "--check" in sys.argv[1:]
    protos = sorted(str(p.relative_to(ROOT)) for p in HERE.glob("*.proto"))
    include = str(importlib.resources.files("grpc_tools") / "_proto")
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", f"-I{include}"]
        command += [f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}", *protos]
        subprocess.run(command, check=True, cwd=ROOT)
        drifted = []
        for made in sorted(pathlib.Path(out).rglob("*.py*")):
            target = ROOT / made.relative_to(out)
            if not target.exists() or target.read_bytes() != made.read_bytes():
                drifted.append(str(target.relative_to(ROOT)))
                if not check:
                    target.write_bytes(made.read_bytes())
    if check and drifted:
        sys.exit(f"generated stubs differ from the .proto files, run `make generate`: {', '.join(drifted)}")


if __name__ == "__main__":
    main()
