"""Argo Workflows, in the cluster that kubectl would talk to.

The workflow is made and watched through the cluster's own API, so no server of Argo is asked. It gets its
name here: a request whose answer was lost, and which is made again, then makes no second one.
"""

from __future__ import annotations

import contextlib
import copy
import math
import re
import secrets
import string
import sys
import time
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe import figures
from elastic_runtime.platform.kubernetes.errors import AlreadyThere, ApiError
from elastic_runtime.platform.kubernetes.workflows import Workflows
from elastic_runtime.spec.entry import INTERRUPTED, say
from pipelines.engines import argo_status
from pipelines.engines.view import View
from pipelines.packages.argo import ArgoPackage

_LETTERS = string.ascii_lowercase + string.digits
_LAST_LINES = 40  # most of them the executor's, on what it saves
_OF_THE_EXECUTOR = " argo=true"
_HEAD = re.compile(r"^\[[^]]*\] \[\w+\] \[[^]]*\] ")


class Argo:
    """One pipeline on the Argo of one cluster."""

    def __init__(self, package: ArgoPackage, workflows: Workflows) -> None:
        self.package, self._workflows = package, workflows
        self.why = f"Argo in namespace {workflows.namespace} of the cluster {workflows.server}"

    def run(self) -> int:
        """Make the workflow and follow it to its end."""
        name, began = self._submit(), time.time()
        where = f"{name} -n {self._workflows.namespace}"
        try:
            say(f"workflow {name} is made; `argo logs {where} --follow` shows what its steps say")
            ended = self._follow(name)
        except KeyboardInterrupt:
            say(f"workflow {name} goes on without this command; `argo stop {where}` ends it")
            return INTERRUPTED
        for line in self._results(name, ended):
            sys.stdout.write(f"{line}\n")
        if argo_status.phase(ended) != "Succeeded":
            why = argo_status.reason(ended)
            raise ElasticError(f"the pipeline failed: {why}", where=f"workflow {name}")
        sys.stdout.write(f"{name} succeeded in {figures.duration(time.time() - began)}\n")
        return 0

    def _submit(self) -> str:
        manifest = copy.deepcopy(self.package.manifest)
        prefix = manifest["metadata"].pop("generateName", "")
        if prefix:
            manifest["metadata"]["name"] = prefix + "".join(secrets.choice(_LETTERS) for _ in range(5))
        manifest["metadata"]["namespace"] = self._workflows.namespace
        with contextlib.suppress(*([AlreadyThere] if prefix else [])):  # by this very request
            self._workflows.create(manifest)
        return str(manifest["metadata"]["name"])

    def _follow(self, name: str) -> dict[str, Any]:
        """Show its steps until it ends; the workflow as it is then."""
        with View(f"{self.package.name}, workflow {name}") as view:
            for workflow in self._workflows.patient(math.inf).changes(name):
                if workflow is None:
                    raise ElasticError("was deleted", where=f"workflow {name}")
                view.show(argo_status.steps(workflow, self.package.steps()))
                if argo_status.phase(workflow):
                    return workflow
        raise AssertionError("changes end with None")

    def _results(self, name: str, ended: dict[str, Any]) -> list[str]:
        try:
            said = self._workflows.last_lines(name, _LAST_LINES)
        except ApiError as problem:  # not everybody may read logs
            say(f"what the steps said last is not shown: {problem}")
            said = {}
        return [*argo_status.results(ended, {node: _last_words(lines) for node, lines in said.items()})]


def _last_words(lines: list[str]) -> str:
    """Of the step, without time and place; after it Argo's executor has its say."""
    own = [line for line in lines if line.strip() and _OF_THE_EXECUTOR not in line]
    return _HEAD.sub("", own[-1]) if own else ""
