"""Kubeflow Pipelines, by its own client: what `kfp.Client()` would talk to.

That is KF_PIPELINES_ENDPOINT, or in a cluster the service `ml-pipeline` of the namespace `kubeflow`
(KF_PIPELINES_NAMESPACE): a pod of that cluster knows it by name, though it may not see other namespaces, like
a notebook of Kubeflow; by kubeconfig the API server leads to it. How the steps get on the server tells only
when asked. Its older interfaces tell the rest: why a pod waits or has failed, and what a step has logged;
where the server cannot read logs, kubectl's cluster may.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kfp
import kfp_server_api  # type: ignore[import-untyped]
from kubernetes.config import incluster_config
from urllib3.exceptions import HTTPError

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.observe import figures
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import Forbidden, NotThere
from elastic_runtime.platform.kubernetes.workflows import Workflows
from elastic_runtime.spec.entry import INTERRUPTED, say
from pipelines.engines import Absent, kfp_status
from pipelines.engines.view import View
from pipelines.packages.kfp import KfpPackage

ENDPOINT, UI, NAMESPACE = "KF_PIPELINES_ENDPOINT", "KF_PIPELINES_UI_ENDPOINT", "KF_PIPELINES_NAMESPACE"
_IN_WORDS = f"{{run}} among the runs on the page of Kubeflow Pipelines, whose address {UI} can name"
_MAY_BE_LOST = "Kubeflow Pipelines may have lost it (docs/known-issues.md); another run can be started"
TOKEN = Path(incluster_config.SERVICE_TOKEN_FILENAME)
_SERVICE, _HOME = "ml-pipeline", "kubeflow"
_KINDS_OF_KUBEFLOW, _RECURRING_RUNS = "/apis/kubeflow.org/v1beta1", "scheduledworkflows"
_CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 5.0
_TOLD_SECONDS = 30.0
_UNHEARD_SECONDS = 120.0
"""How long a run may be pending without a workflow before it is said that it may never have one."""
_WORKFLOW, _LOG = "/apis/v1beta1/runs/{run}", "/apis/v1alpha1/runs/{run}/nodes/{pod}/log"
_GONE, _PASSING = 404, (408, 429)


class Refused(ElasticError):
    """The server will not answer this otherwise when it is asked again."""


class Gone(Refused):
    """It does not know what is asked for."""


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
            ended = self._follow(client, run, page)
        except KeyboardInterrupt:
            say(f"run {run} goes on without this command; its page can terminate it: {page}")
            return INTERRUPTED
        workflow = self._workflow(client, run)
        logs = self._logs(client, run, workflow)
        if logs and not any(logs.values()):
            say("no logs of the steps can be had: what they said last, and their metrics, are not shown")
        for line in kfp_status.results(workflow, logs):
            sys.stdout.write(f"{line}\n")
        sys.stdout.write(f"metrics, report and model: {page}\n")
        if not kfp_status.ENDED[str(ended.state)]:
            told = "; ".join(f"{step}: {words}" for step, words in kfp_status.reasons(workflow).items())
            why = told or kfp_status.error(ended) or str(ended.state).lower()
            raise ElasticError(f"the pipeline failed: {why}", where=f"run {run}")
        sys.stdout.write(f"{self.package.name} succeeded in {figures.duration(time.time() - began)}\n")
        return 0

    def _client(self) -> Any:
        _require_listener(self._endpoint)
        with self._asked():
            return kfp.Client(namespace=os.environ.get(NAMESPACE) or _HOME, **self._by_token())

    def _by_token(self) -> dict[str, str]:
        """What KFP's client is told where kubectl's user has a token: by itself it would forget the proxy."""
        if self._cluster is None or _is_in_a_pod():
            return {}
        token, authority = self._cluster.connection.bearer
        if not token:
            return {}
        judged_by = {"ssl_ca_cert": authority} if authority else {}
        return {"host": self._endpoint, "existing_token": token, **judged_by}

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

    def _follow(self, client: Any, run: str, page: str) -> Any:
        """Show its steps until it ends; the run as it is then."""
        with View(f"{self.package.name}, run {run}") as view:
            is_away, is_lost, began = False, False, time.monotonic()
            while True:
                try:
                    with self._asked():
                        found = client.get_run(run)
                except Gone as problem:
                    raise ElasticError("was deleted", where=f"run {run}") from problem
                except Refused as problem:
                    remedy = f"the run goes on without this command: {page}"
                    raise ElasticError(problem.what, where=problem.where, remedy=remedy) from problem
                except ElasticError as problem:  # the run outlives its server, so do we
                    if not is_away:
                        say(f"{problem}: waiting for it")
                    is_away = True
                else:
                    is_away, is_over = False, str(found.state) in kfp_status.ENDED
                    workflow = self._workflow(client, run)
                    view.show(kfp_status.steps(found, self.package.paths(), workflow))
                    if is_over:
                        return found
                    unheard = kfp_status.is_pending(found) and not workflow
                    if unheard and not is_lost and time.monotonic() - began > _UNHEARD_SECONDS:
                        is_lost = True
                        say(f"no workflow is known of run {run}: {_MAY_BE_LOST}")
                time.sleep(_LOOK_SECONDS)

    def _workflow(self, client: Any, run: str) -> dict[str, Any]:
        """What Argo knows of the run; empty if the server, of another release, does not tell."""
        with contextlib.suppress(LookupError, TypeError, ValueError):
            told = self._told(client, _WORKFLOW.format(run=run))
            return dict(json.loads(told["pipeline_runtime"]["workflow_manifest"]))
        return {}

    def _logs(self, client: Any, run: str, workflow: dict[str, Any]) -> dict[str, list[str]]:
        """What each step has said, by its pod."""
        namespace = workflow.get("metadata", {}).get("namespace", "")
        return {
            pod: self._log(client, run, pod) or self._log_in_the_cluster(namespace, pod)
            for pod in kfp_status.pods(workflow)
        }

    def _log(self, client: Any, run: str, pod: str) -> list[str]:
        """As the server has it; an error comes as an object."""
        told = self._told(client, _LOG.format(run=run, pod=pod))
        return told.splitlines() if isinstance(told, str) else []

    def _log_in_the_cluster(self, namespace: str, pod: str) -> list[str]:
        """As the cluster has it, if there is one; not everybody may read logs there."""
        with contextlib.suppress(ElasticError):
            if self._cluster is not None:
                return list(Api(self._cluster.connection, namespace).pod_log(pod, container="main"))
        return []

    def _told(self, client: Any, place: str) -> Any:
        """What an interface answers of which the client knows nothing; None if it does not."""
        with contextlib.suppress(ElasticError, UnicodeError), self._asked():
            return client._run_api.api_client.call_api(
                place,
                "GET",
                response_type="object",
                auth_settings=["Bearer"],
                _return_http_data_only=True,
                _request_timeout=_TOLD_SECONDS,
            )
        return None

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
            raise _kind(problem.status or 0)(what, where=self._endpoint) from problem
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
    """By the service in the cluster that kubectl would talk to, or that this pod is in."""
    home = os.environ.get(NAMESPACE) or _HOME
    if _is_in_a_pod():
        place = kfp.Client._IN_CLUSTER_DNS_NAME.format(home)
        if not _is_known(place):
            raise Absent(f"no {ENDPOINT} is set, and the cluster of this pod has nothing of the name {place}")
        endpoint, how = f"http://{place}", "its name in the cluster of this pod"
    else:
        _require_service(home, cluster)
        endpoint = f"{cluster.server}/api/v1/namespaces/{home}/services/{_SERVICE}:http/proxy"
        how = f"the cluster of kubectl has service {home}/{_SERVICE}"
    page = os.environ.get(UI, "")
    return Kfp(package, endpoint=endpoint, how=how, page=page, namespace=namespace, cluster=cluster)


def _require_service(home: str, cluster: Workflows) -> None:
    """Raise if there is none; where one may not look, what is installed tells, which everybody may see."""
    try:
        if Api(cluster.connection, home).get_service(_SERVICE) is not None:
            return
    except Forbidden as problem:
        if _is_installed(cluster):
            raise InputError(
                f"the cluster has Kubeflow Pipelines, and whether that is {home}/{_SERVICE} you may not see:"
                f" {problem.what}",
                where=cluster.server,
                remedy=f"set {ENDPOINT} to its address, or name another --engine",
            ) from problem
    raise Absent(f"no {ENDPOINT} is set, and namespace {home} of the cluster has no service {_SERVICE}")


def _is_installed(cluster: Workflows) -> bool:
    with contextlib.suppress(NotThere):
        listed = cluster.connection.ask("GET", _KINDS_OF_KUBEFLOW, kind="object")
        return any(each["name"] == _RECURRING_RUNS for each in listed["resources"])
    return False


def _is_in_a_pod() -> bool:
    """As KFP's client tells."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and TOKEN.exists()


def _is_known(place: str) -> bool:
    try:
        return bool(socket.getaddrinfo(place.partition(":")[0], None))
    except OSError:
        return False


def _kind(status: int) -> type[ElasticError]:
    if status == _GONE:
        return Gone
    return Refused if 400 <= status < 500 and status not in _PASSING else ElasticError


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
