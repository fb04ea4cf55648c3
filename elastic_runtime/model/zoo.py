"""The folder of the user's model files, importable only while one of them is being loaded or called.

Two zoos may hold modules of the same name, in one process and over one life of it: what was imported from a zoo
is kept with that zoo, not in `sys.modules`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.model.old_imports import OLD_IMPORTS, old_imports
from elastic_runtime.model.user_code import told


class Zoo:
    """Imports model files: absolute imports start from the zoo's folder or from the folder of the model file."""

    def __init__(self, folder: Path, model_file: Path) -> None:
        self._folders = list(dict.fromkeys([str(model_file.resolve().parent), str(folder.resolve())]))
        self._folder = folder.resolve()
        self._modules: dict[str, ModuleType] = {}

    def load(self, path: Path) -> ModuleType:
        """Run the file at `path` as a module, or return it if it has been run."""
        path = path.resolve()
        name = self._name_of(path)
        if name in self._modules:
            return self._modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise InputError("there is no such Python file", where=str(path))
        module = importlib.util.module_from_spec(spec)
        with self.importable():
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except ModuleNotFoundError as error:
                raise InputError(
                    f"needs the module {error.name}", where=str(path), remedy=_how_to_get(error.name or "")
                ) from error
            except ElasticError:
                raise
            except Exception as error:
                raise told(f"file {path}", error) from error
        return module

    def file_of(self, dotted: str, where: str) -> Path:
        """The file of a module named from the zoo's folder."""
        path = self._folder.joinpath(*dotted.split(".")).with_suffix(".py")
        if not path.is_file():
            raise InputError(
                f"there is no {path}", where=where, remedy="folder.file.symbol, from the model zoo"
            )
        return path

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Inside, files of this zoo can be imported, and modules of the old ElasticDL."""
        before = dict(sys.modules)
        sys.modules.update(self._modules)
        sys.path[:0] = self._folders
        importlib.invalidate_caches()
        try:
            with old_imports():
                yield
        finally:
            for folder in self._folders:
                sys.path.remove(folder)
            self._keep_ours(before)

    def _keep_ours(self, before: dict[str, ModuleType]) -> None:
        for name, module in list(sys.modules.items()):
            if before.get(name) is not module and self._owns(name, module):
                self._modules[name] = module
                del sys.modules[name]
                if name in before:
                    sys.modules[name] = before[name]

    def _owns(self, name: str, module: ModuleType) -> bool:
        if name.split(".")[0] == "elastic_runtime":  # this program may lie in the folder that is the zoo
            return False
        places = [getattr(module, "__file__", None) or "", *map(str, getattr(module, "__path__", ()))]
        return any(
            Path(place).is_relative_to(folder) and "site-packages" not in place
            for place in places
            for folder in self._folders
        )

    def _name_of(self, path: Path) -> str:
        """The dotted name from the zoo's folder, so that relative imports work too."""
        inside = path.is_relative_to(self._folder)
        parts = path.relative_to(self._folder).with_suffix("").parts if inside else (path.stem,)
        return ".".join(parts) if all(part.isidentifier() for part in parts) else path.stem


def _how_to_get(name: str) -> str:
    if name.split(".")[0] in ("elasticdl", "elasticdl_preprocessing"):
        return f"of the old package there are {', '.join(sorted(OLD_IMPORTS))}"
    return "add it to the requirements.txt of the model zoo, or install it here"
