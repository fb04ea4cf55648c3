"""Kubeflow Pipelines, by its own client: what `kfp.Client()` would talk to.

That is KF_PIPELINES_ENDPOINT, or in a cluster, by kubeconfig or as one of its pods, the service `ml-pipeline`
of the namespace `kubeflow` (KF_PIPELINES_NAMESPACE). The server tells the state of steps only when asked, and
nothing of what they made: metrics, report and model are on its page. Why a step failed its older interface
tells, and in a cluster the pods tell what each step said last.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kfp
import kfp_server_api  # type: ignore[import-untyped]
from urllib3.exceptions import HTTPError

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe import figures
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import Forbidden
from elastic_runtime.platform.kubernetes.workflows import Workflows
from elastic_runtime.spec.entry import INTERRUPTED, say
from pipelines.engines import Absent, Phase, Step
from pipelines.engines.view import View
from pipelines.packages.kfp import KfpPackage

ENDPOINT, UI, NAMESPACE = "KF_PIPELINES_ENDPOINT", "KF_PIPELINES_UI_ENDPOINT", "KF_PIPELINES_NAMESPACE"
_IN_WORDS = f"{{run}} among the runs on the page of Kubeflow Pipelines, whose address {UI} can name"
_SERVICE, _HOME = "ml-pipeline", "kubeflow"
_CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 5.0
_FIRST_INTERFACE = "/apis/v1beta1/runs/"
_EXECUTOR = re.compile(r"\.executor(\(\d+\))?$")
_NOT_THE_STEP = re.compile(
    r'[IWEF]\d{4} [\d:.]+ +\d+ \S+\.go:\d+\] |time="?\d{4}-|Error: exit status \d+'
    r"|\[KFP Executor |\[[^]]*\] \[INFO\] \[executor_main\.py:"
)
"""Lines of KFP's launcher, of Argo's, and of KFP's part in the step's own process."""
_HEAD = re.compile(r"^\[[^]]*\] \[\w+\] \[[^]]*\] ")
_LAST_LINES = 40
_CONTAINER = re.compile(r"^main: \w+ \(exit code \d+\): ")
_ENDED = {"SUCCEEDED": True, "SKIPPED": True, "FAILED": False, "CANCELED": False}
_PHASES = {
    "PENDING": Phase.WAITING,
    "RUNNING": Phase.RUNNING,
    "CANCELING": Phase.RUNNING,
    "PAUSED": Phase.WAITING,
    "SUCCEEDED": Phase.SUCCEEDED,
    "SKIPPED": Phase.SKIPPED,
    "FAILED": Phase.FAILED,
    "CANCELED": Phase.FAILED,
}


class Kfp:
    """One pipeline on one KFP."""

    def __init__(
        self,
        package: KfpPackage,
        *,
        endpoint: str,
        how: str,
        page: str = "",
        namespace: str = "",
        cluster: Workflows | None = None,
    ) -> None:
        self.package, self._endpoint, self._page, self._namespace = package, endpoint, page, namespace
        self._cluster = cluster
        self.why = f"Kubeflow Pipelines at {endpoint} ({how})"

    def run(self) -> int:
        """Start a run and follow it to its end."""
        client, began = self._client(), time.time()
        run = self._start(client)
        page = f"{self._page}/#/runs/details/{run}" if self._page else _IN_WORDS.format(run=run)
        say(f"run {run} is started: {page}")
        try:
            ended = self._follow(client, run)
        except KeyboardInterrupt:
            say(f"run {run} goes on without this command; its page can terminate it: {page}")
            return INTERRUPTED
        workflow = self._workflow(client, run)
        for line in self._said(workflow):
            sys.stdout.write(f"{line}\n")
        sys.stdout.write(f"metrics, report and model: {page}\n")
        if not _ENDED[str(ended.state)]:
            told = "; ".join(f"{step}: {words}" for step, words in reasons(workflow).items())
            why = told or _error(ended) or str(ended.state).lower()
            raise ElasticError(f"the pipeline failed: {why}", where=f"run {run}")
        sys.stdout.write(f"{self.package.name} succeeded in {figures.duration(time.time() - began)}\n")
        return 0

    def _client(self) -> Any:
        _require_listener(self._endpoint)
        with self._asked():
            return kfp.Client(namespace=os.environ.get(NAMESPACE) or _HOME)

    def _start(self, client: Any) -> str:
        with tempfile.TemporaryDirectory() as folder, self._asked():
            file = Path(folder, f"{self.package.name}.yaml")
            file.write_text(self.package.text(), encoding="utf-8")
            made = client.create_run_from_pipeline_package(
                str(file),
                arguments=self.package.parameters,
                run_name=f"{self.package.name} {time.strftime('%Y-%m-%d %H:%M:%S')}",
                namespace=self._namespace or None,
            )
            return str(made.run_id)

    def _follow(self, client: Any, run: str) -> Any:
        """Show its steps until it ends; the run as it is then."""
        with View(f"{self.package.name}, run {run}") as view:
            is_away = False
            while True:
                try:
                    with self._asked():
                        found = client.get_run(run)
                except ElasticError as problem:  # the run outlives its server, so do we
                    if not is_away:
                        say(f"{problem}: waiting for it")
                    is_away = True
                else:
                    is_away = False
                    view.show(steps(found, self.package.steps()))
                    if str(found.state) in _ENDED:
                        return found
                time.sleep(_LOOK_SECONDS)

    def _workflow(self, client: Any, run: str) -> dict[str, Any]:
        """What Argo knows of the run; empty if the server, of another release, does not tell."""
        with contextlib.suppress(ElasticError, LookupError, TypeError, ValueError), self._asked():
            told = client._run_api.api_client.call_api(
                _FIRST_INTERFACE + run,
                "GET",
                response_type="object",
                auth_settings=["Bearer"],
                _return_http_data_only=True,
            )
            return dict(json.loads(told["pipeline_runtime"]["workflow_manifest"]))
        return {}

    def _said(self, workflow: Mapping[str, Any]) -> Iterator[str]:
        """What each step said last, where its pods can be read."""
        about = workflow.get("metadata", {})
        if self._cluster is None or not about:
            return
        try:
            place = Workflows(self._cluster.connection, about["namespace"], self._cluster.server)
            logs = place.last_lines(about["name"], _LAST_LINES)
        except ElasticError as problem:  # not everybody may read logs
            say(f"what the steps said last is not shown: {problem}")
            return
        for path, node in _last_attempts(workflow).items():
            own = [
                line for line in logs.get(node["id"], []) if line.strip() and not _NOT_THE_STEP.match(line)
            ]
            if own and _EXECUTOR.search(node["name"]):
                yield f"{_task(path):<10} {_HEAD.sub('', own[-1])}"

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """The client's own chatter goes nowhere, and what goes wrong is told in one line."""
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
                yield
        except kfp_server_api.ApiException as problem:
            what = f"Kubeflow Pipelines answers {problem.status} {problem.reason}"
            raise ElasticError(what, where=self._endpoint) from problem
        except (HTTPError, OSError) as problem:
            raise ElasticError(
                f"Kubeflow Pipelines does not answer: {problem}", where=self._endpoint
            ) from problem
        finally:
            logging.disable(before)


def configured(package: KfpPackage, namespace: str) -> Kfp | None:
    """By the endpoint that the environment names, if it does."""
    found = os.environ.get(ENDPOINT, "").rstrip("/")
    if not found:
        return None
    endpoint = found if found.startswith("http") else f"https://{found}"
    page = os.environ.get(UI) or endpoint
    return Kfp(package, endpoint=endpoint, how=f"{ENDPOINT} says so", page=page, namespace=namespace)


def in_cluster(package: KfpPackage, namespace: str, cluster: Workflows) -> Kfp:
    """By the service in the cluster that kubectl would talk to."""
    home = os.environ.get(NAMESPACE) or _HOME
    try:
        there = Api(cluster.connection, home).get_service(_SERVICE)
    except Forbidden:
        there = None
    if there is None:
        raise Absent(f"no {ENDPOINT} is set, and namespace {home} of the cluster has no service {_SERVICE}")
    endpoint = f"{cluster.server}/api/v1/namespaces/{home}/services/{_SERVICE}:http/proxy"
    how = f"the cluster of kubectl has service {home}/{_SERVICE}"
    page = os.environ.get(UI, "")
    return Kfp(package, endpoint=endpoint, how=how, page=page, namespace=namespace, cluster=cluster)


def steps(run: Any, order: list[str]) -> list[Step]:
    """The run's tasks; KFP lists its drivers and groups among them, which nobody has written."""
    told = run.run_details.task_details if run.run_details else None
    latest = {task.display_name: task for task in told or [] if task.display_name in order}
    return [_step(name, latest.get(name)) for name in dict.fromkeys(order)]


def reasons(workflow: Mapping[str, Any]) -> dict[str, str]:
    """By task, the last words of the pods that failed, but not of an attempt that a better one followed."""
    return {
        _task(path): _CONTAINER.sub("", node.get("message", "")).strip()
        for path, node in _last_attempts(workflow).items()
        if node.get("phase") in {"Failed", "Error"}
    }


def _last_attempts(workflow: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """By the task's path, the pod that tried it last."""
    nodes = workflow.get("status", {}).get("nodes") or {}
    pods = sorted((node for node in nodes.values() if node["type"] == "Pod"), key=_end)
    return {_EXECUTOR.sub("", node["name"]): node for node in pods}


def _task(path: str) -> str:
    return path.rpartition(".")[2]


def _end(node: Mapping[str, Any]) -> str:
    return node.get("finishedAt") or "~"


def _step(name: str, task: Any) -> Step:
    if task is None:
        return Step(name)
    return Step(
        name=name,
        phase=_PHASES.get(str(task.state), Phase.WAITING),
        detail=_error(task),
        began=task.start_time.timestamp() if task.start_time else None,
        ended=task.end_time.timestamp() if task.end_time and task.end_time > task.start_time else None,
    )


def _error(told: Any) -> str:
    return told.error.message or "" if told.error else ""


def _require_listener(endpoint: str) -> None:
    """Raise if nobody listens; KFP's client would ask for minutes."""
    place = urlsplit(endpoint)
    try:
        port = place.port or (443 if place.scheme == "https" else 80)
        socket.create_connection((place.hostname or "", port), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError) as problem:
        raise ElasticError(
            f"Kubeflow Pipelines cannot be reached: {problem}",
            where=endpoint,
            remedy=f"see that {ENDPOINT} is right and the server runs, or name another --engine",
        ) from problem
