"""What the user's own rules make of pods and services, last of all: `--cluster_spec`, a Python file with an
object `cluster`, and `--cluster_spec_json`, after which the file has the last word.

The file is read where the job is submitted, and its text goes with the job's anchor, so no image has to hold
it; one that does has it in `/cluster_spec`. Whatever is wrong with it is an `InputError` that names its line,
and so is a change by which the job would lose sight of its own objects.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from kubernetes.client import V1Pod, V1Service

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.platform.kubernetes.cluster_json import ClusterJson
from elastic_runtime.platform.kubernetes.labels import IDENTITY
from elastic_runtime.platform.pods import Role
from elastic_runtime.spec.job import JobSpec

IN_IMAGES = Path("/cluster_spec")
_METHODS = ("with_pod", "with_service")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The rules; without any, everything stays as it is."""

    json: ClusterJson = field(default_factory=ClusterJson)
    text: str = ""
    where: str = ""
    cluster: Any = None

    @classmethod
    def load(cls, spec: JobSpec, kept: str = "") -> ClusterSpec:
        """The rules of a job; `kept` is the text of its file, where that has been read before."""
        json, where = ClusterJson.parse(spec.cluster_spec_json), spec.cluster_spec
        if not where:
            return cls(json=json)
        text = kept or _text_of(Path(where))
        return cls(json=json, text=text, where=where, cluster=_run(text, where))

    def with_pod(self, pod: V1Pod, role: Role) -> V1Pod:
        """The pod as it should be."""
        before = _identity(pod)
        self.json.change_pod(pod, role)
        return self._called("with_pod", pod, before)

    def with_service(self, service: V1Service) -> V1Service:
        """The service as it should be."""
        before = _identity(service)
        self.json.change_service(service)
        return self._called("with_service", service, before)

    def _called(self, method: str, made: Any, before: dict[str, Any]) -> Any:
        changed, where = made, "--cluster_spec_json"
        if self.cluster is not None:
            change = getattr(self.cluster, method)
            where = _place(change, self.where)
            with _told(self.where):
                changed = change(made)
        if not isinstance(changed, type(made)):
            what = f"{method} returned {type(changed).__name__}, not {type(made).__name__}"
            raise InputError(what, where=where, remedy="let it return what it was given")
        for name, value in _identity(changed).items():
            if value != before[name]:
                what = f"{name}={value}, where the job looks for {before[name]}"
                raise InputError(what, where=where, remedy="leave it as it is")
        return changed


def _text_of(path: Path) -> str:
    in_image = IN_IMAGES / path.name
    try:
        return (path if path.exists() else in_image).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no {path}, and no {in_image}", where="--cluster_spec") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}", where="--cluster_spec") from None


def _run(text: str, where: str) -> Any:
    """The file's `cluster`."""
    module = ModuleType("elasticdl_cluster_spec")
    sys.modules[module.__name__] = module  # dataclasses look up the module they are in
    with _told(where):
        exec(compile(text, where, "exec"), vars(module))  # noqa: S102 - the file the user asks to run
    cluster = getattr(module, "cluster", None)
    missing = [method for method in _METHODS if not callable(getattr(cluster, method, None))]
    if missing:
        what = "there is no `cluster`" if cluster is None else f"`cluster` has no method {missing[0]}"
        raise InputError(
            what, where=where, remedy="give it an object `cluster` with " + " and ".join(_METHODS)
        )
    return cluster


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Errors of the user's file, by its lines."""
    try:
        yield
    except ElasticError:
        raise
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise InputError(f"{type(error).__name__}: {error.msg}", where=place) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f":{frame.lineno}" for frame in frames if frame.filename == where]
        raise InputError(f"{type(error).__name__}: {error}", where="".join([where, *lines[-1:]])) from error


def _place(change: Callable[[Any], Any], where: str) -> str:
    code = getattr(change, "__code__", None)
    return f"{where}:{code.co_firstlineno}" if code else where


def _identity(made: Any) -> dict[str, Any]:
    """That by which the job finds the object again."""
    found = made.metadata
    labels = found.labels or {}
    return {"name": found.name, "namespace": found.namespace, **{key: labels.get(key) for key in IDENTITY}}
