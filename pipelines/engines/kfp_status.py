"""What Kubeflow Pipelines tells of a run, in the terms of its tasks: how each is, what it has said and made.

The run has the states. The workflow that it is to Argo has why a pod waits or has failed, and where outputs
were to go. In the log of a step, behind what the step itself said, KFP's launcher writes what it made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.engines import Phase, Step
from pipelines.engines.outputs import outputs

ENDED = {"SUCCEEDED": True, "SKIPPED": True, "FAILED": False, "CANCELED": False}
"""The states of a run that has ended, and whether that is a success."""
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
_EXECUTOR = re.compile(r"\.executor(\(\d+\))?$")
_DRIVER = "-driver"
_CONTAINER = re.compile(r"^main: \w+ \(exit code \d+\): ")
_OF_THE_LAUNCHER = r"[IWEF]\d{4} [\d:.]+ +\d+ \S+\.go:\d+\] "
_NOT_THE_STEP = re.compile(
    rf'{_OF_THE_LAUNCHER}|time="?\d{{4}}-|Error: exit status \d+'
    r"|\[KFP Executor |\[[^]]*\] \[INFO\] \[executor_main\.py:"
)
"""Lines of KFP's launcher, of Argo's, and of KFP's part in the step's own process."""
_MADE = re.compile(rf"^{_OF_THE_LAUNCHER}ExecutorOutput: (\{{$.*?^\}})$", re.DOTALL | re.MULTILINE)
_DOCUMENTS = re.compile(
    rf"^\{{$.*?^\}}$|^{_OF_THE_LAUNCHER}ExecutorOutput: .*?(?=^{_OF_THE_LAUNCHER}|\Z)",
    re.DOTALL | re.MULTILINE,
)
"""What KFP tells its part of the step, and what that made, of which the log may have the beginning only."""
_HEAD = re.compile(r"^\[[^]]*\] \[\w+\] \[[^]]*\] ")
_LOGS = "executor-logs"

Node = Mapping[str, Any]


def is_pending(run: Any) -> bool:
    """Whether nothing of the run has begun."""
    return str(run.state) == "PENDING"


def steps(run: Any, order: Sequence[str], waits: Mapping[str, str]) -> list[Step]:
    """The run's tasks; KFP lists its drivers and groups among them, which nobody has written."""
    told = run.run_details.task_details if run.run_details else None
    latest = {task.display_name: task for task in told or [] if task.display_name in order}
    found = {name: _step(name, latest.get(name)) for name in order}
    for task, why in waits.items():
        to_come = (name for name in found if name not in latest)
        held = task if task in found else task.removesuffix(_DRIVER)
        held = held if held in found else next(to_come, "")  # which a pod of a group is to start
        if held:
            found[held] = dataclasses.replace(found[held], phase=Phase.WAITING, detail=why)
    return [*found.values()]


def waits(workflow: Mapping[str, Any]) -> dict[str, str]:
    """By task, or driver of one, why its pod does not run yet."""
    last = _last_attempts(workflow).items()
    return {_task(path): node["message"] for path, node in last if _is_held_up(node)}


def reasons(workflow: Mapping[str, Any]) -> dict[str, str]:
    """By task, the last words of the pods that failed, but not of an attempt that a better one followed."""
    return {
        _task(path): _CONTAINER.sub("", node.get("message", "")).strip()
        for path, node in _last_attempts(workflow).items()
        if node.get("phase") in {"Failed", "Error"}
    }


def pods(workflow: Mapping[str, Any]) -> list[str]:
    """The names of those in which steps have run."""
    return [_pod(workflow, node) for _, node in _ran(workflow)]


def results(workflow: Mapping[str, Any], logs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What each step said last and what it made, a line each, from the logs of its pods."""
    for task, node in _ran(workflow):
        log = "\n".join(logs.get(_pod(workflow, node), ()))
        own = _DOCUMENTS.sub("", log).splitlines()
        if words := [line for line in own if line.strip() and not _NOT_THE_STEP.match(line)]:
            yield f"{task:<10} {_HEAD.sub('', words[-1])}"
        yield from outputs(task, _made(log) or _meant(node))


def error(told: Any) -> str:
    """What a run or a task says of itself."""
    return told.error.message or "" if told.error else ""


def _made(log: str) -> dict[str, Any]:
    """As the launcher has written it."""
    with contextlib.suppress(ValueError):
        if found := _MADE.search(log):
            return dict(json.loads(found[1]))
    return {}


def _meant(node: Node) -> dict[str, Any]:
    """Where the outputs of a step are that has succeeded: what the driver has told the launcher."""
    told = {port["name"]: port.get("value") for port in node.get("inputs", {}).get("parameters", [])}
    with contextlib.suppress(LookupError, TypeError, ValueError):
        words = json.loads(told["pod-spec-patch"])["containers"][0]["command"]
        artifacts = json.loads(words[words.index("--executor_input") + 1])["outputs"]["artifacts"]
        if node.get("phase") == "Succeeded":
            return {"artifacts": {name: each for name, each in artifacts.items() if name != _LOGS}}
    return {}


def _ran(workflow: Mapping[str, Any]) -> Iterator[tuple[str, Node]]:
    """Each task whose step has run, and its last pod."""
    for path, node in _last_attempts(workflow).items():
        if _EXECUTOR.search(node["name"]):
            yield _task(path), node


def _last_attempts(workflow: Mapping[str, Any]) -> dict[str, Node]:
    """By the task's path, the pod that tried it last."""
    nodes = workflow.get("status", {}).get("nodes") or {}
    found = sorted((node for node in nodes.values() if node["type"] == "Pod"), key=_end)
    return {_EXECUTOR.sub("", node["name"]): node for node in found}


def _pod(workflow: Mapping[str, Any], node: Node) -> str:
    """Its name, as Argo makes it up."""
    return f"{workflow['metadata']['name']}-{node['templateName']}-{node['id'].rpartition('-')[2]}"


def _is_held_up(node: Node) -> bool:
    return node.get("phase") == "Pending" and bool(node.get("message"))


def _task(path: str) -> str:
    return path.rpartition(".")[2]


def _end(node: Node) -> str:
    return node.get("finishedAt") or "~"


def _step(name: str, task: Any) -> Step:
    if task is None:
        return Step(name)
    return Step(
        name=name,
        phase=_PHASES.get(str(task.state), Phase.WAITING),
        detail=error(task),
        began=task.start_time.timestamp() if task.start_time else None,
        ended=task.end_time.timestamp() if task.end_time and task.end_time > task.start_time else None,
    )
