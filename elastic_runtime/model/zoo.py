"""The folder of the user's model files, from which they import each other.

Two zoos may hold modules of the same name. One zoo at a time is the process's own: when another is used, what
was imported from the first is set aside, and comes back with it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.model.old_imports import OLD_IMPORTS, old_imports
from elastic_runtime.model.user_code import told


class Zoo:
    """Imports model files, which may import from the zoo's folder and from the model file's own."""

    _active: ClassVar[Zoo | None] = None

    def __init__(self, folder: Path, model_file: Path) -> None:
        self._folders = list(dict.fromkeys([str(model_file.resolve().parent), str(folder.resolve())]))
        self._folder = folder.resolve()
        self._modules: dict[str, ModuleType] = {}

    def load(self, path: Path) -> ModuleType:
        """Run the file at `path` as a module, or return it if it has been run."""
        path = path.resolve()
        name = self._name_of(path)
        if self._is_loaded(name, path):
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise InputError("there is no such Python file", where=str(path))
        module = importlib.util.module_from_spec(spec)
        with self.importable():
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except Exception as error:
                del sys.modules[name]
                raise _cannot_load(path, error) from error
        return module

    def _is_loaded(self, name: str, path: Path) -> bool:
        self._activate()
        return getattr(sys.modules.get(name), "__file__", None) == str(path)

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
        """Inside, files of this zoo come before others of their name; the old ElasticDL is there, too."""
        self._activate()
        sys.path[:0] = self._folders
        importlib.invalidate_caches()
        try:
            with old_imports():
                yield
        finally:
            for folder in self._folders:
                sys.path.remove(folder)

    def _activate(self) -> None:
        if Zoo._active is self:
            return
        if Zoo._active is not None:
            Zoo._active._set_aside()
        sys.modules.update(self._modules)
        sys.path.extend(self._folders)  # for what a model imports later, while it runs
        Zoo._active = self

    def _set_aside(self) -> None:
        for folder in self._folders:
            sys.path.remove(folder)
        for name, module in list(sys.modules.items()):
            if self._owns(name, module):
                self._modules[name] = sys.modules.pop(name)

    def _owns(self, name: str, module: ModuleType) -> bool:
        if name.split(".", 1)[0] == "elastic_runtime":  # this program may lie in the folder that is the zoo
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
        name = ".".join(parts) if all(part.isidentifier() for part in parts) else path.stem
        return name if name not in sys.modules or self._owns(name, sys.modules[name]) else f"model_{name}"


def _cannot_load(path: Path, error: Exception) -> ElasticError:
    name = (isinstance(error, ImportError) and error.name) or ""
    if name.split(".", 1)[0] in ("elasticdl", "elasticdl_preprocessing"):
        known = ", ".join(sorted(OLD_IMPORTS))
        return InputError(str(error), where=str(path), remedy=f"of the old package there are {known}")
    if isinstance(error, ModuleNotFoundError):
        remedy = "add it to the requirements.txt of the model zoo, or install it here"
        return InputError(f"needs the module {name}", where=str(path), remedy=remedy)
    return told("the model module", error)
