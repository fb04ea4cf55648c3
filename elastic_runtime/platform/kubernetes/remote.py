"""A command in a pod that runs, as `kubectl exec` does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream
from websocket import WebSocketException

from elastic_runtime.platform.kubernetes.connection import configuration
from elastic_runtime.platform.kubernetes.errors import CutOff, told

_LOOK_SECONDS = 0.2


def run_in_pod(
    namespace: str,
    pod: str,
    command: Sequence[str],
    *,
    container: str,
    out: Callable[[str], None],
    err: Callable[[str], None],
) -> int:
    """Run it, passing on what it writes as it comes; its exit code.

    Raises `CutOff` if nobody tells one: the pod has ended, and the command with it, or the line is cut.
    """
    own = client.ApiClient(configuration(force_kube_config_file=False))  # `stream` changes what it is given
    core = client.CoreV1Api(own)
    try:
        line = stream(
            core.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            container=container,
            command=[*command],
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
            _preload_content=False,
        )
    except ApiException as problem:
        raise told(problem) from problem
    try:
        while line.is_open():
            line.update(timeout=_LOOK_SECONDS)
            if line.peek_stdout():
                out(line.read_stdout())
            if line.peek_stderr():
                err(line.read_stderr())
        return int(line.returncode or 0)
    except BrokenPipeError:  # whoever reads what we pass on has left
        raise
    except (WebSocketException, OSError, LookupError, TypeError, ValueError) as problem:  # no code was told
        raise CutOff("the command's end was not told", where=pod) from problem
