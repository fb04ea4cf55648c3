"""Everything about components that is made from something else: `python -m components.generate [--check]`.

The training component's inputs come from `JobSpec`; each component's `component.yaml` and `README.md` come
from the component. Installed, this is `python -m elasticdl_components.generate`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kfp.compiler import Compiler

from elastic_runtime.errors import ElasticError
from elastic_runtime.spec.entry import outcome

from .readme import readme
from .train.signature import component

HERE = Path(__file__).parent


def generated() -> Iterator[tuple[Path, str]]:
    """Each generated file and its text."""
    yield HERE / "train" / "component.py", component()
    for place in sorted(HERE.glob("*/component.py")):
        made = _component(place.parent.name)
        yield place.with_name("component.yaml"), _compiled(made)
        yield place.with_name("README.md"), readme(made)


def main() -> int:
    """Write them, or with `--check` say which are not as they should be."""
    parser = argparse.ArgumentParser(prog="python -m components.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only tell whether all are up to date")
    check = parser.parse_args().check
    for path, wanted in generated():
        if check and (not path.exists() or path.read_text(encoding="utf-8") != wanted):
            raise ElasticError("is out of date", where=str(path), remedy="run `make generate`")
        if not check:
            path.write_text(wanted, encoding="utf-8")
    return 0


def _component(name: str) -> Any:
    """As its file says now: it may have been read before it was written anew."""
    module = importlib.import_module(f".{name}.component", __package__)
    return getattr(importlib.reload(module), name)


def _compiled(component: Any) -> str:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
        file = Path(folder, "component.yaml")
        Compiler().compile(component, str(file))
        return file.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(outcome(main))
